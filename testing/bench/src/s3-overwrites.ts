// Objects that are only overwritten, with the collector at work and without it: what collection takes from uploads.
import { randomBytes } from "node:crypto";
import { cpuSeconds, memoryMiB, metricSamples, metricsPage } from "@concord/constellation";
import { closedLoop, type LoadResult } from "./load.ts";
import { renderTable } from "./report.ts";
import type { S3Requests } from "./s3-requests.ts";

const IN_FLIGHT = 16;
const KEYS = 1_000;
/** Above what a row holds, so each overwrite leaves a blob. */
const BYTES = 64 * 1024;
const WARM_UP_SECONDS = 5;
/** Garbage of the warm-up is due when the measurement begins: the collector has its full rate of work all the time. */
const GRACE_MS = 3_000;
const COLLECT_INTERVAL_MS = 1_000;
const AN_HOUR_MS = 3_600_000;

export type Collection = "collected" | "kept";

export interface OverwriteLine extends LoadResult {
  readonly collection: Collection;
  readonly seconds: number;
  readonly cpuUsPerPut: number;
  /** While figures were taken. */
  readonly blobsCollected: number;
  readonly memoryMiB: number;
}

export interface OverwriteTarget {
  readonly requests: S3Requests;
  readonly pids: readonly number[];
  readonly adminAddress: string;
}

/** The configuration of a gateway that collects what is replaced within seconds, or not during the run. */
export function overwriteConfig(collection: Collection): object {
  const graceMs = collection === "collected" ? GRACE_MS : AN_HOUR_MS;
  return { gcGraceMs: graceMs, longestRequestMs: graceMs, collectIntervalMs: COLLECT_INTERVAL_MS };
}

export async function measureOverwrites(
  { requests, pids, adminAddress }: OverwriteTarget,
  { bucket, collection, seconds }: { readonly bucket: string; readonly collection: Collection; readonly seconds: number },
): Promise<OverwriteLine> {
  const body = randomBytes(BYTES);
  let next = 0;
  const work = async (): Promise<void> => {
    next += 1;
    await requests.send("PUT", `/${bucket}/overwritten/${next % KEYS}`, body);
  };
  const cpu = (): number => pids.reduce((sum, pid) => sum + cpuSeconds(pid), 0);
  let [usedSeconds, memory] = [0, 0];
  const collected: Promise<number>[] = [];
  const load = { inFlight: IN_FLIGHT, seconds, warmUpSeconds: WARM_UP_SECONDS };
  const result = await closedLoop(load, work, () => {
    const before = cpu();
    collected.push(blobsCollected(adminAddress));
    return () => {
      usedSeconds = cpu() - before;
      memory = memoryMiB(pids);
      collected.push(blobsCollected(adminAddress));
    };
  });
  const [atFirst = 0, atLast = 0] = await Promise.all(collected);
  const cpuUsPerPut = (usedSeconds * 1e6) / (result.perSecond * seconds);
  return { ...result, collection, seconds, cpuUsPerPut, blobsCollected: atLast - atFirst, memoryMiB: memory };
}

async function blobsCollected(adminAddress: string): Promise<number> {
  const samples = metricSamples(await metricsPage(adminAddress), "objects_garbage_removed_total");
  return samples.reduce((sum, { value }) => sum + value, 0);
}

export interface CollectionCost {
  /** CPU of the gateway, per blob that was collected. */
  readonly cpuUsPerBlob: number;
  /** Uploads with collection, of those without it: by rate, and by CPU per upload. */
  readonly byRate: number;
  readonly byCpu: number;
}

export function collectionCost(kept: OverwriteLine, collected: OverwriteLine): CollectionCost {
  const puts = collected.perSecond * collected.seconds;
  return {
    cpuUsPerBlob: ((collected.cpuUsPerPut - kept.cpuUsPerPut) * puts) / collected.blobsCollected,
    byRate: collected.perSecond / kept.perSecond,
    byCpu: kept.cpuUsPerPut / collected.cpuUsPerPut,
  };
}

export function overwriteTable(lines: readonly OverwriteLine[]): string {
  const head = ["garbage", "seconds", "per s", "p50 ms", "p99 ms", "CPU us/PUT", "collected", "memory MiB"];
  const rows = lines.map((line) => [
    line.collection,
    String(line.seconds),
    line.perSecond.toFixed(1),
    line.p50Ms.toFixed(2),
    line.p99Ms.toFixed(2),
    line.cpuUsPerPut.toFixed(0),
    String(line.blobsCollected),
    line.memoryMiB.toFixed(0),
  ]);
  return renderTable([head, ...rows]);
}

// One gateway, a bucket that keeps versions beside one that does not: what versions cost an upload and a download.
import { randomBytes } from "node:crypto";
import { cpuSeconds } from "@concord/constellation";
import { closedLoop, type LoadResult } from "./load.ts";
import { renderTable } from "./report.ts";
import type { S3Requests } from "./s3-requests.ts";

const IN_FLIGHT = 16;
/** In the row, so that metadata is most of the work. */
const BYTES = 4 * 1024;
const KEYS = 2_000;
/** The two buckets in turn: what else the machine does meets both. */
export const VERSION_ROUNDS = 4;
const WARM_UP_SECONDS = 1;

export type Versions = "off" | "on";
/**
 * PUT: overwrites of the same keys, after which a bucket with versions has more rows than one without: unlike work, as a client meets it.
 * PUT of new keys: both keep all that was uploaded; in buckets of their round.
 */
export const VERSIONED_OPERATIONS = ["PUT", "PUT of new keys", "GET"] as const;
export type VersionedOperation = (typeof VERSIONED_OPERATIONS)[number];

export interface VersionsLine extends LoadResult {
  readonly versions: Versions;
  readonly operation: VersionedOperation;
  readonly cpuUsPerOperation: number;
}

interface VersionsTarget {
  readonly requests: S3Requests;
  readonly pids: readonly number[];
}

/** Each round writes and reads both buckets; the first one to go alternates. */
export async function measureVersions(target: VersionsTarget, seconds: number): Promise<VersionsLine[]> {
  const { requests } = target;
  await makeBuckets(requests);
  const lines: VersionsLine[] = [];
  for (let round = 0; round < VERSION_ROUNDS; round += 1) {
    const order: readonly Versions[] = round % 2 === 0 ? ["off", "on"] : ["on", "off"];
    await makeBuckets(requests, round);
    for (const operation of VERSIONED_OPERATIONS) {
      for (const versions of order) lines.push(await measure(target, { versions, operation, seconds, round }));
    }
  }
  return lines;
}

async function makeBuckets(requests: S3Requests, round?: number): Promise<void> {
  for (const versions of ["off", "on"] as const) await requests.send("PUT", `/${bucketOf(versions, round)}`);
  const enabled = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
  await requests.send("PUT", `/${bucketOf("on", round)}?versioning=`, Buffer.from(enabled));
}

const bucketOf = (versions: Versions, round?: number): string => ["versions", versions, ...(round === undefined ? [] : [round])].join("-");

/** What the n-th request names. */
export function pathOf({ versions, operation, round }: Omit<Measurement, "seconds">, nth: number): string {
  return operation === "PUT of new keys" ? `/${bucketOf(versions, round)}/${nth}` : `/${bucketOf(versions)}/${nth % KEYS}`;
}

interface Measurement {
  readonly versions: Versions;
  readonly operation: VersionedOperation;
  readonly seconds: number;
  readonly round: number;
}

async function measure({ requests, pids }: VersionsTarget, measurement: Measurement): Promise<VersionsLine> {
  const { versions, operation, seconds } = measurement;
  const body = randomBytes(BYTES);
  let next = 0;
  const work = async (): Promise<void> => {
    next += 1;
    const path = pathOf(measurement, next);
    if (operation !== "GET") await requests.send("PUT", path, body);
    else if ((await requests.send("GET", path)).bytes !== BYTES) throw new Error(`GET ${path} came back short`);
  };
  const cpu = (): number => pids.reduce((sum, pid) => sum + cpuSeconds(pid), 0);
  // Every key that is read is there, whatever the rounds before wrote.
  if (operation === "GET") {
    for (let at = 0; at < KEYS; at += IN_FLIGHT) {
      const keys = Array.from({ length: IN_FLIGHT }, (_, nth) => (at + nth) % KEYS);
      await Promise.all(keys.map((key) => requests.send("PUT", `/${bucketOf(versions)}/${key}`, body)));
    }
  }
  let usedSeconds = 0;
  const result = await closedLoop({ inFlight: IN_FLIGHT, seconds, warmUpSeconds: WARM_UP_SECONDS }, work, () => {
    const before = cpu();
    return () => void (usedSeconds = cpu() - before);
  });
  return { ...result, versions, operation, cpuUsPerOperation: (usedSeconds * 1e6) / (result.perSecond * seconds) };
}

export interface VersionsCost {
  readonly operation: VersionedOperation;
  /** Medians over the rounds. */
  readonly off: { readonly perSecond: number; readonly cpuUs: number };
  readonly on: VersionsCost["off"];
}

export function versionsCost(lines: readonly VersionsLine[], operation: VersionedOperation): VersionsCost {
  const of = (versions: Versions): VersionsCost["off"] => {
    const found = lines.filter((line) => line.versions === versions && line.operation === operation);
    return { perSecond: median(found.map((line) => line.perSecond)), cpuUs: median(found.map((line) => line.cpuUsPerOperation)) };
  };
  return { operation, off: of("off"), on: of("on") };
}

function median(numbers: readonly number[]): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

export function versionsTable(lines: readonly VersionsLine[]): string {
  const head = ["operation", "versions", "per s", "p50 ms", "p99 ms", "CPU us/op"];
  const rows = lines.map((line) => [
    line.operation,
    line.versions,
    line.perSecond.toFixed(1),
    line.p50Ms.toFixed(2),
    line.p99Ms.toFixed(2),
    line.cpuUsPerOperation.toFixed(0),
  ]);
  return renderTable([head, ...rows]);
}

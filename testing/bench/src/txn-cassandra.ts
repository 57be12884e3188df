// Transactions on Cassandra beside Cassandra alone: a quorum read and a native logged batch of the same rows, which isolates nothing, and one
// lightweight transaction per row. All by the same driver, on the same nodes, in the same run; every time-out is counted and tried again.
import { globSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "@concord/client";
import { cpuSeconds, type Engines } from "@concord/constellation";
import { addPhoto, createAlbums } from "./albums.ts";
import { Attempts } from "./attempts.ts";
import type { BenchOptions } from "./options.ts";
import { addresses, openPlainAlbums } from "./cassandra-albums.ts";
import { measured, startForBench, warmUp } from "./concord-load.ts";
import { closedLoop, type LoadOptions, type LoadResult } from "./load.ts";
import { machine, machineLine, renderTable, writeReport } from "./report.ts";

interface Line extends LoadResult {
  readonly system: string;
  readonly inFlight: number;
  /** Of clients and, for Concord, its process. */
  readonly ownCpuSeconds: number;
  readonly cassandraCpuSeconds: number;
  /** Operations that failed and were done again. */
  readonly failed: number;
}

const CONCORD = "Concord";
const NATIVE = "read, logged batch";
const PER_ROW = "read, LWT per row";

export async function txnCassandraBench(options: BenchOptions): Promise<void> {
  const lines: Line[] = [];
  const folder = mkdtempSync(join(tmpdir(), "concord-bench-"));
  const constellation = await startForBench(folder, "one", options);
  const [db, plain] = [await connect({ coordinators: constellation.coordinators }), await openPlainAlbums(options.engines)];
  const client = async (load: LoadOptions, work: () => Promise<unknown>): Promise<LoadResult & { readonly ownCpuSeconds: number }> => {
    let ownCpuSeconds = 0;
    const result = await closedLoop(load, work, () => {
      const before = process.cpuUsage();
      return () => {
        const { user, system } = process.cpuUsage(before);
        ownCpuSeconds = (user + system) / 1e6;
      };
    });
    return { ...result, ownCpuSeconds };
  };
  const concord = async (load: LoadOptions, work: () => Promise<unknown>): ReturnType<typeof client> => {
    const result = await measured(constellation, load, work);
    return { ...result, ownCpuSeconds: result.serverCpuSeconds + result.clientCpuSeconds };
  };
  try {
    await createAlbums(db);
    const systems = [
      { system: CONCORD, run: concord, work: () => addPhoto(db) },
      { system: NATIVE, run: client, work: () => plain.addPhotoLogged() },
      { system: PER_ROW, run: client, work: () => plain.addPhotoByRow() },
    ];
    for (const { work } of systems) await warmUp(repeated(work).work);
    for (const inFlight of options.levels) {
      for (const { system, run, work } of systems) {
        const load: LoadOptions = { inFlight, seconds: options.seconds, warmUpSeconds: Math.ceil(options.seconds / 4) };
        const counted = repeated(work);
        const before = cassandraCpu(options.engines);
        const result = await run(load, counted.work);
        // Warm-up included: it is the same share of every line.
        const share = options.seconds / (options.seconds + load.warmUpSeconds);
        const cassandraCpuSeconds = (cassandraCpu(options.engines) - before) * share;
        lines.push({ ...result, system, inFlight, cassandraCpuSeconds, failed: counted.failed() });
        console.log(`measured ${system}, ${inFlight} in flight`);
      }
    }
  } finally {
    db.close();
    await plain.close();
    await constellation.stop();
    rmSync(folder, { recursive: true, force: true });
  }
  report(options, lines);
}

/** What fails is done again and counted. */
function repeated(work: () => Promise<unknown>): { readonly work: () => Promise<void>; readonly failed: () => number } {
  let failed = 0;
  const again = async (): Promise<void> => {
    const attempts = new Attempts("a transaction");
    for (;;) {
      try {
        await work();
        return;
      } catch (thrown) {
        attempts.check(thrown);
        failed += 1;
      }
    }
  };
  return { work: again, failed: () => failed };
}

/** Of all nodes, since they started. */
function cassandraCpu({ folder }: Engines): number {
  const records = globSync(join(folder, "cassandra/*/process.json"));
  return records.reduce((sum, file) => sum + cpuSeconds((JSON.parse(readFileSync(file, "utf8")) as { readonly pid: number }).pid), 0);
}

function report(options: BenchOptions, lines: readonly Line[]): void {
  const on = machine();
  const nodes = addresses(options.engines).length;
  const us = (cpu: number, { perSecond }: Line): string => ((cpu * 1e6) / Math.max(1, perSecond * options.seconds)).toFixed(0);
  const rows = lines.map((line) => {
    const native = lines.find(({ system, inFlight }) => system === NATIVE && inFlight === line.inFlight)!;
    const figures = [line.perSecond.toFixed(0), line.p50Ms.toFixed(1), line.p99Ms.toFixed(1)];
    const cpu = [us(line.ownCpuSeconds, line), us(line.cassandraCpuSeconds, line)];
    return [line.system, String(line.inFlight), ...figures, ...cpu, String(line.failed), (line.perSecond / native.perSecond).toFixed(2)];
  });
  console.log(`\nadd photo with index on ${nodes} Cassandra node${nodes === 1 ? "" : "s"}; ${machineLine(on)}\n`);
  const head = ["system", "in flight", "tx/s", "p50 ms", "p99 ms", "own CPU us/tx", "Cassandra CPU us/tx", "failed", "of the batch"];
  console.log(renderTable([head, ...rows]));
  writeReport(options.out, { bench: "txn-cassandra", machine: on, nodes, seconds: options.seconds, lines });
}

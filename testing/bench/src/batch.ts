// The price of logging (LB14): the same batch of five rows in five partitions with and without its log.
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, type ConcordClient } from "@concord/client";
import type { BenchOptions } from "./options.ts";
import { measured, startForBench, warmUp, type ConcordResult, type TopologyName } from "./concord-load.ts";
import { machine, machineLine, renderTable, writeReport } from "./report.ts";

const ROWS = 5;
const PARTITIONS = 1000;
const TABLE = "CREATE TABLE postings (account bigint, id uuid, text text, PRIMARY KEY (account, id)) WITH kind = 'plain'";
const TEXT = "one line of a hundred characters or so, as a posting to a wall in a social network may well have it";

interface Line {
  readonly topology: TopologyName;
  readonly inFlight: number;
  readonly logged: ConcordResult;
  readonly unlogged: ConcordResult;
}

export async function batchBench(options: BenchOptions): Promise<void> {
  const lines: Line[] = [];
  for (const topology of options.topologies) lines.push(...(await measureTopology(topology, options)));
  report(options, lines);
}

async function measureTopology(topology: TopologyName, options: BenchOptions): Promise<Line[]> {
  const folder = mkdtempSync(join(tmpdir(), "concord-bench-"));
  const constellation = await startForBench(folder, topology, options);
  const db = await connect({ coordinators: constellation.coordinators });
  const lines: Line[] = [];
  try {
    await db.createTables([TABLE]);
    await warmUp(() => batch(db, true));
    for (const inFlight of options.levels) {
      const load = { inFlight, seconds: options.seconds / 2, warmUpSeconds: Math.ceil(options.seconds / 8) };
      const half = (logged: boolean): Promise<ConcordResult> => measured(constellation, load, () => batch(db, logged));
      // The table grows meanwhile, and what has more rows costs more: one kind runs before and after the other.
      const [first, second, third, fourth] = [await half(false), await half(true), await half(true), await half(false)];
      lines.push({ topology, inFlight, logged: both(second, third), unlogged: both(first, fourth) });
      console.log(`measured ${topology}, ${inFlight} in flight`);
    }
    return lines;
  } finally {
    db.close();
    await constellation.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Two halves as one: rates and percentiles are their means. */
function both(left: ConcordResult, right: ConcordResult): ConcordResult {
  const mean = (figure: (half: ConcordResult) => number): number => (figure(left) + figure(right)) / 2;
  return {
    perSecond: mean(({ perSecond }) => perSecond),
    p50Ms: mean(({ p50Ms }) => p50Ms),
    p99Ms: mean(({ p99Ms }) => p99Ms),
    serverCpuSeconds: left.serverCpuSeconds + right.serverCpuSeconds,
    clientCpuSeconds: left.clientCpuSeconds + right.clientCpuSeconds,
    memoryMiB: Math.max(left.memoryMiB, right.memoryMiB),
  };
}

function batch(db: ConcordClient, logged: boolean): Promise<unknown> {
  const first = Math.floor(Math.random() * PARTITIONS);
  const id = randomUUID();
  const accounts = Array.from({ length: ROWS }, (_, at) => BigInt((first + at * 37) % PARTITIONS));
  return db.batch(
    accounts.map((account) => ({ insert: "postings", row: { account, id, text: TEXT } })),
    { logged },
  );
}

function report(options: BenchOptions, lines: readonly Line[]): void {
  const on = machine();
  const cells = (kind: string, inFlight: number, result: ConcordResult): string[] => {
    const cpu = (result.serverCpuSeconds * 1e6) / Math.max(1, result.perSecond * options.seconds);
    return [kind, String(inFlight), result.perSecond.toFixed(0), result.p50Ms.toFixed(2), result.p99Ms.toFixed(2), cpu.toFixed(0)];
  };
  const rows = lines.flatMap(({ topology, inFlight, logged, unlogged }) => [
    cells(`unlogged, ${topology}`, inFlight, unlogged),
    cells(`logged, ${topology}`, inFlight, logged),
  ]);
  console.log(`\nbatches of ${ROWS} rows in ${ROWS} partitions; ${machineLine(on)}\n`);
  console.log(renderTable([["batch", "in flight", "batches/s", "p50 ms", "p99 ms", "server CPU us"], ...rows]));
  for (const { topology, inFlight, logged, unlogged } of lines) {
    console.log(
      `${topology}, ${inFlight} in flight: the log costs ${(unlogged.perSecond / logged.perSecond).toFixed(2)}x throughput, ${(logged.p50Ms / unlogged.p50Ms).toFixed(2)}x p50`,
    );
  }
  writeReport(options.out, { bench: "batch", machine: on, seconds: options.seconds, lines });
}

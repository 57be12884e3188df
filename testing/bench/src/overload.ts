// What more load than the servers can do leaves of their work: bulk transactions are offered at multiples of the capacity, while small
// commits go on, and the time is taken until small commits are normal again.
import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { connect, type ConcordClient } from "@concord/client";
import { cpuSeconds, Latencies, type Constellation } from "@concord/constellation";
import type { BenchOptions } from "./options.ts";
import { BULK_TABLES, type BulkOptions, type BulkResult } from "./bulk-load.ts";
import { startForBench, TOPOLOGIES, type TopologyName } from "./concord-load.ts";
import { machine, machineLine, renderTable, writeReport } from "./report.ts";

const FACTORS = [1, 2, 5, 10];
const CAPACITY_IN_FLIGHT = 8;
const DEADLINE_MS = 3_000;
const PROBE_EVERY_MS = 50;
/** A small commit that takes longer, or fails, says that the servers are not back to normal. */
const NORMAL_MS = 1_000;
/** Longest time that is waited for that. */
const QUIET_MS = 60_000;

interface Level {
  readonly factor: number;
  readonly offeredPerSecond: number;
  readonly goodputPerSecond: number;
  readonly serverCpuSecondsPerCommit: number;
  readonly failed: BulkResult["failed"];
  readonly smallP50Ms: number;
  readonly smallP99Ms: number;
  readonly smallFailed: number;
  readonly normalAfterSeconds: number;
}

/** `--seconds` is the time of load at each level. */
export async function overloadBench(options: BenchOptions): Promise<void> {
  for (const topology of options.topologies) await measureTopology(topology, options);
}

async function measureTopology(topology: TopologyName, options: BenchOptions): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "concord-bench-"));
  const constellation = await startForBench(folder, topology, options);
  const db = await connect({ coordinators: constellation.coordinators });
  try {
    await db.createTables([...BULK_TABLES, "CREATE TABLE probes (id bigint PRIMARY KEY, n int)"]);
    const load = { coordinators: constellation.coordinators, inFlight: CAPACITY_IN_FLIGHT, deadlineMs: DEADLINE_MS };
    await bulk({ ...load, seconds: options.seconds, perSecond: undefined, deadlineMs: 10 * DEADLINE_MS });
    const closed = await bulk({ ...load, seconds: options.seconds, perSecond: undefined, deadlineMs: 10 * DEADLINE_MS });
    const capacity = closed.committed / closed.tookSeconds;
    console.log(`capacity: ${capacity.toFixed(1)} bulk transactions/s`);
    const levels: Level[] = [];
    for (const factor of FACTORS) {
      levels.push(await measureLevel(constellation, db, factor, { ...load, seconds: options.seconds, perSecond: factor * capacity }));
      console.log(`measured ${factor}x: ${JSON.stringify(levels.at(-1))}`);
    }
    report(topology, options, capacity, levels);
  } finally {
    db.close();
    await constellation.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function bulk(options: BulkOptions): Promise<BulkResult> {
  const child = fork(join(import.meta.dirname, "bulk-load.ts"), [JSON.stringify(options)]);
  const [result] = (await once(child, "message")) as [BulkResult];
  return result;
}

async function measureLevel(constellation: Constellation, db: ConcordClient, factor: number, load: BulkOptions): Promise<Level> {
  const pids = constellation.nodes.map((node) => constellation.process(node.name).pid!);
  const servers = (): number => pids.reduce((sum, pid) => sum + cpuSeconds(pid), 0);
  const probes = new Probes(db);
  const before = servers();
  const result = await bulk(load);
  const loadEndedAt = performance.now();
  const cpu = servers() - before;
  const during = probes.figures();
  await probes.normal(loadEndedAt);
  const normalAfterSeconds = Math.max(0, probes.lastTroubleAt - loadEndedAt) / 1000;
  await probes.stop();
  return {
    factor,
    offeredPerSecond: load.perSecond!,
    goodputPerSecond: result.committed / result.tookSeconds,
    serverCpuSecondsPerCommit: cpu / Math.max(1, result.committed),
    failed: result.failed,
    ...during,
    normalAfterSeconds,
  };
}

/** Small commits in an open loop. */
class Probes {
  readonly #db: ConcordClient;
  readonly #running = new Set<Promise<void>>();
  readonly #latencies = new Latencies();
  #failed = 0;
  #isOver = false;
  /** When the last one ended that failed or took longer than NORMAL_MS. */
  lastTroubleAt = 0;
  readonly #loop: Promise<void>;

  constructor(db: ConcordClient) {
    this.#db = db;
    this.#loop = this.#run();
  }

  figures(): Pick<Level, "smallP50Ms" | "smallP99Ms" | "smallFailed"> {
    return { smallP50Ms: this.#latencies.percentileMs(0.5), smallP99Ms: this.#latencies.percentileMs(0.99), smallFailed: this.#failed };
  }

  /** Until no commit was in trouble for a whole deadline. */
  async normal(from: number): Promise<void> {
    while (performance.now() - Math.max(from, this.lastTroubleAt) < DEADLINE_MS && performance.now() - from < QUIET_MS)
      await sleep(PROBE_EVERY_MS);
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#loop;
    await Promise.all(this.#running);
  }

  async #run(): Promise<void> {
    for (let n = 0; !this.#isOver; n += 1) {
      const probe: Promise<void> = this.#probe(n).finally(() => this.#running.delete(probe));
      this.#running.add(probe);
      await sleep(PROBE_EVERY_MS);
    }
  }

  async #probe(n: number): Promise<void> {
    const from = performance.now();
    const isCommitted = await this.#db.insert("probes", { id: BigInt(n % 100), n }, { timeoutMs: DEADLINE_MS }).then(
      () => true,
      () => false,
    );
    const tookMs = performance.now() - from;
    if (isCommitted) this.#latencies.add(tookMs);
    else this.#failed += 1;
    if (!isCommitted || tookMs >= NORMAL_MS) this.lastTroubleAt = performance.now();
  }
}

function report(topology: TopologyName, options: BenchOptions, capacity: number, levels: readonly Level[]): void {
  const on = machine();
  const head = [
    "load",
    "offered/s",
    "goodput/s",
    "of capacity",
    "server CPU ms/commit",
    "small p50 ms",
    "small p99 ms",
    "small failed",
    "normal after s",
  ];
  const rows = levels.map((level) => [
    `${level.factor}x`,
    level.offeredPerSecond.toFixed(1),
    level.goodputPerSecond.toFixed(1),
    `${((100 * level.goodputPerSecond) / capacity).toFixed(0)} %`,
    (level.serverCpuSecondsPerCommit * 1000).toFixed(0),
    level.smallP50Ms.toFixed(1),
    level.smallP99Ms.toFixed(0),
    String(level.smallFailed),
    level.normalAfterSeconds.toFixed(1),
  ]);
  console.log(
    `\ntransactions of 400 rows with two indexes, open loop, deadline ${DEADLINE_MS} ms; ${TOPOLOGIES[topology].about}; ${machineLine(on)}\n`,
  );
  console.log(renderTable([head, ...rows]));
  const file = options.out === undefined ? undefined : `${options.out}.${topology}`;
  writeReport(file, { bench: "overload", topology, machine: on, seconds: options.seconds, capacity, levels });
}

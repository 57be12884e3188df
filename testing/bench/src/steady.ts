// Does a store that is only overwritten stay as large as its rows? Counters are overwritten and rows move within an index for
// minutes; disk, memory and the time of an index page are printed as they go.
import { randomUUID } from "node:crypto";
import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { connect, ConcordClientError, type ConcordClient } from "@concord/client";
import { Latencies, type Constellation, memoryMiB } from "@concord/constellation";
import { Attempts } from "./attempts.ts";
import type { BenchOptions } from "./options.ts";
import { startForBench, TOPOLOGIES, type TopologyName } from "./concord-load.ts";
import { machine, machineLine, renderTable, writeReport } from "./report.ts";

const BOARDS = 20;
const ROWS_PER_BOARD = 50;
const PAGE_ROWS = 20;
const PAGES_PER_SAMPLE = 200;
const SAMPLES = 12;
const IN_FLIGHT = 32;
/** By default outcomes are kept for 15 minutes (TXD7), and all of a run would be there at its end. */
const OUTCOME_RETENTION_MS = 60_000;
const TABLES = [
  "CREATE TABLE boards (id bigint PRIMARY KEY, moves int)",
  "CREATE TABLE players (board bigint, id uuid, score int, name text, PRIMARY KEY (board, id))",
  "CREATE INDEX by_score ON players (board, score)",
];

interface Sample {
  readonly atSeconds: number;
  readonly movesPerSecond: number;
  readonly diskMiB: number;
  readonly memoryMiB: number;
  readonly pageP50Ms: number;
  readonly pageP99Ms: number;
}

type Players = ReadonlyMap<bigint, readonly string[]>;

/** `--seconds` is the whole time of the load. */
export async function steadyBench(options: BenchOptions): Promise<void> {
  for (const topology of options.topologies) await measureTopology(topology, options);
}

async function measureTopology(topology: TopologyName, options: BenchOptions): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "concord-bench-"));
  const constellation = await startForBench(folder, topology, {
    profileFolder: options.profileFolder,
    config: { outcomeRetentionMs: OUTCOME_RETENTION_MS },
  });
  const db = await connect({ coordinators: constellation.coordinators });
  const samples: Sample[] = [];
  try {
    await db.createTables(TABLES);
    const players = await createPlayers(db);
    await load(db, players, options.seconds, async (atSeconds, movesPerSecond) => {
      samples.push({ atSeconds, movesPerSecond, diskMiB: diskMiB(folder), memoryMiB: memoryOf(constellation), ...(await pages(db)) });
      console.log(`${atSeconds.toFixed(0)} s: ${movesPerSecond.toFixed(0)} moves/s, ${samples.at(-1)!.diskMiB.toFixed(0)} MiB on disk`);
    });
  } finally {
    db.close();
    await constellation.stop();
    rmSync(folder, { recursive: true, force: true });
  }
  report(topology, options, samples);
}

async function createPlayers(db: ConcordClient): Promise<Players> {
  const players = new Map<bigint, string[]>();
  for (let board = 1n; board <= BigInt(BOARDS); board += 1n) {
    const ids = Array.from({ length: ROWS_PER_BOARD }, () => randomUUID());
    players.set(board, ids);
    await db.runTransaction({ table: "boards", key: { id: board } }, async (txn) => {
      txn.insert("boards", { id: board, moves: 0 });
      ids.forEach((id, at) => txn.insert("players", { board, id, score: at, name: `player ${at}` }));
    });
  }
  return players;
}

/** A closed loop; between two samples nothing else runs, so that a page is not timed behind the load. */
async function load(
  db: ConcordClient,
  players: Players,
  seconds: number,
  sample: (atSeconds: number, movesPerSecond: number) => Promise<void>,
): Promise<void> {
  const startedAt = performance.now();
  for (let part = 1; part <= SAMPLES; part += 1) {
    const from = performance.now();
    const until = startedAt + (part / SAMPLES) * seconds * 1000;
    let moves = 0;
    const worker = async (): Promise<void> => {
      for (; performance.now() < until; moves += 1) await move(db, players);
    };
    await Promise.all(Array.from({ length: IN_FLIGHT }, worker));
    const took = (performance.now() - from) / 1000;
    // What the load left behind (marks, applies, checkpoints) is not the page's time.
    await sleep(500);
    await sample((performance.now() - startedAt) / 1000, moves / took);
  }
}

function move(db: ConcordClient, players: Players): Promise<unknown> {
  const board = BigInt(1 + Math.floor(Math.random() * BOARDS));
  const id = players.get(board)![Math.floor(Math.random() * ROWS_PER_BOARD)]!;
  return db.runTransaction({ table: "boards", key: { id: board } }, async (txn) => {
    const held = await txn.lock<{ moves: number }>("boards", { id: board });
    txn.update("boards", { id: board, moves: held!.moves + 1 });
    txn.update("players", { board, id, score: Math.floor(Math.random() * 1_000_000) });
  });
}

async function pages(db: ConcordClient): Promise<{ readonly pageP50Ms: number; readonly pageP99Ms: number }> {
  const latencies = new Latencies();
  for (let at = 0; at < PAGES_PER_SAMPLE; at += 1) {
    const board = BigInt(1 + (at % BOARDS));
    const from = performance.now();
    const page = await readPage(db, board);
    if (page.rows.length !== PAGE_ROWS) throw new Error(`a page of board ${board} has ${page.rows.length} rows instead of ${PAGE_ROWS}`);
    latencies.add(performance.now() - from);
  }
  return { pageP50Ms: latencies.percentileMs(0.5), pageP99Ms: latencies.percentileMs(0.99) };
}

/** A read that was refused on a busy machine is made again; its time counts. */
async function readPage(db: ConcordClient, board: bigint): Promise<{ readonly rows: readonly unknown[] }> {
  const attempts = new Attempts(`a page of board ${board}`);
  for (;;) {
    try {
      return await db.query("SELECT * FROM players WHERE board = ? AND score >= ?", [board, 0], { pageSize: PAGE_ROWS });
    } catch (thrown) {
      if (!(thrown instanceof ConcordClientError && thrown.retryable)) throw thrown;
      attempts.check(thrown);
    }
  }
}

function memoryOf(constellation: Constellation): number {
  return memoryMiB(constellation.nodes.map((node) => constellation.process(node.name).pid!));
}

/** Allocated bytes below a folder; a file that goes meanwhile counts nothing. */
export function diskMiB(folder: string): number {
  let blocks = 0;
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (entry.isFile()) blocks += statSync(join(entry.parentPath, entry.name), { throwIfNoEntry: false })?.blocks ?? 0;
  }
  return (blocks * 512) / 2 ** 20;
}

function report(topology: TopologyName, options: BenchOptions, samples: readonly Sample[]): void {
  const on = machine();
  const rows = samples.map(({ atSeconds, movesPerSecond, diskMiB: disk, memoryMiB: memory, pageP50Ms, pageP99Ms }) =>
    [atSeconds, movesPerSecond, disk, memory].map((figure) => figure.toFixed(0)).concat(pageP50Ms.toFixed(2), pageP99Ms.toFixed(2)),
  );
  console.log(
    `\n${BOARDS * ROWS_PER_BOARD} rows move within an index, ${IN_FLIGHT} in flight, outcomes kept ${OUTCOME_RETENTION_MS / 1000} s; ${TOPOLOGIES[topology].about}; ${machineLine(on)}\n`,
  );
  console.log(renderTable([["s", "moves/s", "disk MiB", "memory MiB", "page p50 ms", "page p99 ms"], ...rows]));
  const [first, last] = [samples[0]!, samples.at(-1)!];
  console.log(
    `last / first: disk ${(last.diskMiB / first.diskMiB).toFixed(2)}x, memory ${(last.memoryMiB / first.memoryMiB).toFixed(2)}x, page p50 ${(last.pageP50Ms / first.pageP50Ms).toFixed(2)}x`,
  );
  writeReport(options.out === undefined ? undefined : `${options.out}.${topology}`, {
    bench: "steady",
    topology,
    machine: on,
    seconds: options.seconds,
    samples,
  });
}

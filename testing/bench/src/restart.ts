// How long a node takes until it serves again: with many rows, after a stop and after a kill under full load.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, type ConcordClient } from "@concord/client";
import { memoryMiB, type Constellation } from "@concord/constellation";
import { Attempts } from "./attempts.ts";
import type { BenchOptions } from "./options.ts";
import { startForBench, TOPOLOGIES, type TopologyName } from "./concord-load.ts";
import { machine, machineLine, renderTable, writeReport } from "./report.ts";
import { diskMiB } from "./steady.ts";

const TABLE = "CREATE TABLE notes (book bigint, id bigint, text text, PRIMARY KEY (book, id))";
const ROWS_PER_TRANSACTION = 100;
const IN_FLIGHT = 32;
const TEXT = "a note of a hundred characters or so, as a reader may write it into the margin of a book of some length";

interface Line {
  readonly what: string;
  readonly readySeconds: number;
  readonly memoryMiB: number;
  readonly diskMiB: number;
}

/** `--ids` rows, all nodes restarted at once. */
export async function restartBench(options: BenchOptions): Promise<void> {
  for (const topology of options.topologies) await measureTopology(topology, options);
}

async function measureTopology(topology: TopologyName, options: BenchOptions): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "concord-bench-"));
  const constellation = await startForBench(folder, topology, options);
  const db = await connect({ coordinators: constellation.coordinators, timeoutMs: 30_000 });
  const lines: Line[] = [];
  const timed = async (what: string, end: (name: string) => Promise<void>): Promise<void> => {
    await all(constellation, end);
    const from = performance.now();
    await all(constellation, (name) => constellation.restart(name));
    await readOne(db);
    const readySeconds = (performance.now() - from) / 1000;
    lines.push({ what, readySeconds, memoryMiB: memoryOf(constellation), diskMiB: diskMiB(folder) });
    console.log(`${what}: serving again after ${readySeconds.toFixed(2)} s`);
  };
  try {
    await db.createTables([TABLE]);
    const from = performance.now();
    await fill(db, options.ids);
    console.log(`${options.ids} rows written in ${((performance.now() - from) / 1000).toFixed(0)} s`);
    await timed("stopped", (name) => constellation.process(name).stop());
    const load = keepWriting(db, options.ids);
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    await timed("killed in full load", (name) => constellation.kill(name));
    load.end();
    await load.ended;
  } finally {
    db.close();
    await constellation.stop();
    rmSync(folder, { recursive: true, force: true });
  }
  report(topology, options, lines);
}

async function all(constellation: Constellation, act: (name: string) => Promise<void>): Promise<void> {
  await Promise.all(constellation.nodes.map((node) => act(node.name)));
}

async function fill(db: ConcordClient, rows: number): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next * ROWS_PER_TRANSACTION < rows) await writeBook(db, next++);
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, worker));
}

function writeBook(db: ConcordClient, book: number): Promise<unknown> {
  const first = { book: BigInt(book), id: 0n };
  return db.runTransaction({ table: "notes", key: first }, (txn) => {
    for (let id = 0; id < ROWS_PER_TRANSACTION; id += 1) txn.insert("notes", { book: BigInt(book), id: BigInt(id), text: TEXT });
    return Promise.resolve();
  });
}

/** Writes until `end` is called; what fails while nodes are away is the load's own matter. */
function keepWriting(db: ConcordClient, rows: number): { readonly ended: Promise<unknown>; end(): void } {
  let goesOn = true;
  const books = Math.max(1, Math.floor(rows / ROWS_PER_TRANSACTION));
  const worker = async (): Promise<void> => {
    while (goesOn) await writeBook(db, Math.floor(Math.random() * books)).catch(() => new Promise((resolve) => setTimeout(resolve, 100)));
  };
  return { ended: Promise.all(Array.from({ length: IN_FLIGHT }, worker)), end: () => (goesOn = false) };
}

/** Until a row is read: a node that is ready may still be without its peers. */
async function readOne(db: ConcordClient): Promise<void> {
  const attempts = new Attempts("a read after the restart");
  for (;;) {
    const row = await db.read("notes", { book: 0n, id: 0n }).catch(() => undefined);
    if (row !== undefined) return;
    attempts.check();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

function memoryOf(constellation: Constellation): number {
  return memoryMiB(constellation.nodes.map((node) => constellation.process(node.name).pid!));
}

function report(topology: TopologyName, options: BenchOptions, lines: readonly Line[]): void {
  const on = machine();
  const rows = lines.map(({ what, readySeconds, memoryMiB: memory, diskMiB: disk }) => [
    what,
    readySeconds.toFixed(2),
    memory.toFixed(0),
    disk.toFixed(0),
  ]);
  console.log(`\n${options.ids} rows of about 130 bytes, all nodes restarted; ${TOPOLOGIES[topology].about}; ${machineLine(on)}\n`);
  console.log(renderTable([["ended by", "s to serving", "memory MiB", "disk MiB"], ...rows]));
  writeReport(options.out === undefined ? undefined : `${options.out}.${topology}`, {
    bench: "restart",
    topology,
    machine: on,
    rows: options.ids,
    lines,
  });
}

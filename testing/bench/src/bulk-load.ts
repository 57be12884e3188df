// A process that offers bulk transactions in an open loop: one begins whenever it is due, whatever became of those before.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { connect, ConcordClientError, type ConcordClient } from "@concord/client";

export const BULK_TABLES = [
  "CREATE TABLE items (shelf bigint, id uuid, owner text, status text, modified timestamp, note text, PRIMARY KEY (shelf, id))",
  "CREATE INDEX by_owner ON items (owner, modified)",
  "CREATE INDEX by_status ON items (shelf, status)",
];
const SHELVES = 64;
const ROWS = 400;
const NOTE = "n".repeat(80);

export interface BulkOptions {
  readonly coordinators: readonly string[];
  readonly seconds: number;
  /** Begun per second; undefined = a closed loop of `inFlight`. */
  readonly perSecond: number | undefined;
  readonly inFlight: number;
  readonly deadlineMs: number;
}

export interface BulkResult {
  readonly offered: number;
  /** Acknowledged within their deadline. */
  readonly committed: number;
  /** By error code. */
  readonly failed: Readonly<Record<string, number>>;
  /** From the first one to the last answer. */
  readonly tookSeconds: number;
}

async function main(options: BulkOptions): Promise<BulkResult> {
  const db = await connect({ coordinators: options.coordinators });
  const failed: Record<string, number> = {};
  const totals = { offered: 0, committed: 0 };
  const one = async (): Promise<void> => {
    totals.offered += 1;
    const from = performance.now();
    try {
      await insertItems(db, options.deadlineMs);
      if (performance.now() - from <= options.deadlineMs) totals.committed += 1;
      else failed["too late"] = (failed["too late"] ?? 0) + 1;
    } catch (thrown) {
      const code = thrown instanceof ConcordClientError ? thrown.code : String(thrown);
      failed[code] = (failed[code] ?? 0) + 1;
    }
  };
  const startedAt = performance.now();
  const until = startedAt + options.seconds * 1000;
  if (options.perSecond === undefined) await closedLoop(options.inFlight, until, one);
  else await openLoop(options.perSecond, startedAt, until, one);
  const tookSeconds = (performance.now() - startedAt) / 1000;
  db.close();
  return { ...totals, failed, tookSeconds };
}

async function closedLoop(inFlight: number, until: number, one: () => Promise<void>): Promise<void> {
  const worker = async (): Promise<void> => {
    while (performance.now() < until) await one();
  };
  await Promise.all(Array.from({ length: inFlight }, worker));
}

async function openLoop(perSecond: number, startedAt: number, until: number, one: () => Promise<void>): Promise<void> {
  const running = new Set<Promise<void>>();
  for (let at = 0, due = startedAt; due < until; at += 1, due = startedAt + (at * 1000) / perSecond) {
    const waitMs = due - performance.now();
    if (waitMs > 0) await sleep(waitMs);
    const work: Promise<void> = one().finally(() => running.delete(work));
    running.add(work);
  }
  await Promise.all(running);
}

function insertItems(db: ConcordClient, deadlineMs: number): Promise<void> {
  const shelf = BigInt(1 + Math.floor(Math.random() * SHELVES));
  const ids = Array.from({ length: ROWS }, () => randomUUID());
  const work = async (txn: Parameters<Parameters<ConcordClient["runTransaction"]>[1]>[0]): Promise<void> => {
    for (const id of ids)
      txn.insert("items", { shelf, id, owner: `o${id.slice(0, 2)}`, status: id.slice(-1), modified: new Date(), note: NOTE });
  };
  return db.runTransaction({ table: "items", key: { shelf, id: ids[0]! } }, work, { deadlineMs });
}

if (import.meta.main) {
  const result = await main(JSON.parse(process.argv[2]!) as BulkOptions);
  process.send!(result, undefined, undefined, () => process.disconnect());
}

import { checkListAppend, type MicroOperation, type Transaction as CheckedTransaction } from "@concord/checkers";
import type { ConcordClient, Entity, Transaction } from "@concord/client";
import { sleep, type Environment } from "@concord/runtime";
import type { Cluster } from "../cluster.ts";
import { outcomeOf, reportBug } from "../outcome.ts";
import type { Outcomes } from "../outcomes.ts";

const LIVE_KEYS = 4;
/** Small: ranges of several pages are read. */
const RANGE_PAGE_ROWS = 5;
/** After so many appends an entity's next key is used: lists stay short. */
const APPENDS_PER_KEY = 24;
/** One step of so many reads all keys of its entity. */
const RANGE_STEPS = 12;
export const LISTS_TABLES = [
  "CREATE TABLE lists (entity bigint, k bigint, elements text, size int, PRIMARY KEY (entity, k))",
  "CREATE INDEX by_size ON lists (entity, size)",
];

/** One run of list-append transactions, and what is known of it. */
export interface ListRun {
  readonly cluster: Cluster;
  readonly history: CheckedTransaction[];
  /** Appends begun, by entity. */
  readonly appends: number[];
  readonly keysUsed: Set<string>;
  /** Transactions that did not commit in all their tries, and why. */
  readonly failures: string[];
  /** Longest pause between two operations of a transaction. */
  readonly pauseMs: number;
  elements: number;
  isOver: boolean;
}

interface ListRow {
  readonly k: bigint;
  readonly elements: string;
}

export function newListRun(cluster: Cluster, entities: number, pauseMs: number): ListRun {
  const appends = Array.from({ length: entities }, () => 0);
  return { cluster, history: [], appends, keysUsed: new Set(), failures: [], pauseMs, elements: 0, isOver: false };
}

export async function appendToLists(run: ListRun, db: ConcordClient, env: Environment, client: string): Promise<void> {
  for (let n = 1; !run.isOver; n += 1) {
    await listTransaction(run, db, env, `${client}-${n}`);
    await sleep(env.clock, env.random.below(1 + run.cluster.swarm.thinkMs));
  }
}

/** Runs one transaction and records every try of it: only the last one may have had an effect. */
async function listTransaction(run: ListRun, db: ConcordClient, env: Environment, name: string): Promise<void> {
  const { world, swarm } = run.cluster;
  const entity = BigInt(env.random.below(run.appends.length));
  const plan = drawPlan(run, env, entity);
  const [first] = plan;
  const where: Entity = { table: "lists", key: { entity, k: first!.kind === "range" ? 0n : first!.key } };
  const tries: { readonly startedAt: number; readonly operations: MicroOperation[] }[] = [];
  const startedAt = world.nowMs;
  const work = async (txn: Transaction): Promise<void> => {
    const operations: MicroOperation[] = [];
    tries.push({ startedAt, operations });
    for (const step of plan) {
      if (run.pauseMs > 0) await sleep(env.clock, env.random.below(run.pauseMs));
      await listStep(run, txn, entity, step, operations);
    }
  };
  world.callsInFlight += 1;
  const outcome = await db
    .runTransaction(where, work, { deadlineMs: swarm.timeoutMs, mode: first!.kind === "append" ? "exclusive" : "shared" })
    .then(
      (): "ok" => "ok",
      (thrown: unknown) => failure(run, name, thrown),
    );
  world.callsInFlight -= 1;
  tries.forEach(({ startedAt: at, operations }, index) => {
    const isLast = index === tries.length - 1;
    run.history.push({ name: `${name}.${index + 1}`, outcome: isLast ? outcome : "fail", startedAt: at, endedAt: world.nowMs, operations });
  });
}

type Step =
  | { readonly kind: "read" | "append"; readonly key: bigint }
  /** Every key of the entity at once, as a range of the table or by its index. */
  | { readonly kind: "range"; readonly by: "table" | "index" };

function drawPlan(run: ListRun, env: Environment, entity: bigint): Step[] {
  const base = Math.floor(run.appends[Number(entity)]! / APPENDS_PER_KEY);
  const isReader = env.random.below(4) === 0;
  return Array.from({ length: 1 + env.random.below(4) }, (): Step => {
    if (env.random.below(RANGE_STEPS) === 0) return { kind: "range", by: env.random.below(2) === 0 ? "table" : "index" };
    const key = BigInt(base + env.random.below(LIVE_KEYS));
    return { kind: !isReader && env.random.below(2) === 0 ? "append" : "read", key };
  });
}

async function listStep(run: ListRun, txn: Transaction, entity: bigint, step: Step, operations: MicroOperation[]): Promise<void> {
  if (step.kind === "range") {
    const found = await readAllOf(txn, entity, step.by);
    operations.push({ kind: "read-range", prefix: `${entity}/`, found });
    return;
  }
  const { key: k } = step;
  const appends = step.kind === "append";
  const key = `${entity}/${k}`;
  run.keysUsed.add(key);
  const row = await txn.lock<ListRow>("lists", { entity, k }, { mode: appends ? "exclusive" : "shared" });
  operations.push({ kind: "read", key, elements: elementsOf(row) });
  if (!appends) return;
  run.elements += 1;
  run.appends[Number(entity)]! += 1;
  operations.push({ kind: "append", key, element: run.elements });
  const elements = row === undefined ? String(run.elements) : `${row.elements} ${run.elements}`;
  const written = { entity, k, elements, size: elementsOf(row).length + 1 };
  if (row === undefined) txn.insert("lists", written);
  else txn.update("lists", written);
}

async function readAllOf(txn: Transaction, entity: bigint, by: "table" | "index"): Promise<Map<string, number[]>> {
  const found = new Map<string, number[]>();
  const note = (row: ListRow): void => void found.set(`${entity}/${row.k}`, elementsOf(row));
  if (by === "table") {
    for await (const row of txn.readRange<ListRow>("lists", { partition: { entity }, pageSize: RANGE_PAGE_ROWS })) note(row);
    return found;
  }
  let pageToken: Uint8Array | undefined;
  do {
    const options = { pageSize: RANGE_PAGE_ROWS, ...(pageToken === undefined ? {} : { pageToken }) };
    const page = await txn.query<ListRow>("SELECT * FROM lists WHERE entity = ? AND size > ?", [entity, 0], options);
    page.rows.forEach(note);
    pageToken = page.next;
  } while (pageToken !== undefined);
  return found;
}

function elementsOf(row: ListRow | undefined): number[] {
  return row === undefined ? [] : row.elements.split(" ").map(Number);
}

/** Every key that was used, in transactions of their own. This is also the proof of progress. */
export async function readLists(run: ListRun, db: ConcordClient, deadlineMs: number): Promise<void> {
  for (const key of run.keysUsed) if (!(await readList(run, db, key, deadlineMs))) throw new Error(`${key} cannot be read`);
}

/** One key, as one more transaction of the history. False when it could not be read. */
export async function readList(run: ListRun, db: ConcordClient, key: string, deadlineMs: number): Promise<boolean> {
  const { world } = run.cluster;
  const [entity, k] = key.split("/").map(BigInt) as [bigint, bigint];
  const startedAt = world.nowMs;
  const where = { table: "lists", key: { entity, k } };
  const read = (txn: Transaction): Promise<ListRow | undefined> => txn.lock<ListRow>("lists", { entity, k }, { mode: "shared" });
  try {
    const row = await db.runTransaction(where, read, { deadlineMs, mode: "shared" });
    const operations: MicroOperation[] = [{ kind: "read", key, elements: elementsOf(row) }];
    run.history.push({ name: `final ${key}`, outcome: "ok", startedAt, endedAt: world.nowMs, operations });
    return true;
  } catch (thrown) {
    failure(run, `final ${key}`, thrown);
    return false;
  }
}

export function judgeLists({ cluster, history }: ListRun): void {
  for (const { kind, explanation } of checkListAppend(history).anomalies)
    cluster.world.violation(`list-append ${kind}`, explanation.join("; "));
}

export function countOutcomes(history: readonly CheckedTransaction[]): Outcomes {
  const counts = { ok: 0, fail: 0, info: 0 };
  for (const { outcome } of history) counts[outcome] += 1;
  return counts;
}

function failure(run: ListRun, name: string, thrown: unknown): "fail" | "info" {
  reportBug(run.cluster.world, name, thrown);
  run.failures.push(`${name}: ${String(thrown)}`);
  return outcomeOf(thrown);
}

import { checkListAppend, type MicroOperation, type Transaction as CheckedTransaction } from "@concord/checkers";
import { ConcordClientError, type ConcordClient, type Entity, type Transaction } from "@concord/client";
import { sleep, type Environment } from "@concord/runtime";
import type { SeededRandom } from "@concord/simulation";
import type { Cluster } from "../cluster.ts";
import { outcomeOf, reportBug } from "../outcome.ts";
import type { Outcomes } from "../outcomes.ts";
import { elementsOf, lookAtOwn, readRows, ROW_READS, type ListRow, type RowRead } from "./list-reads.ts";

const LIVE_KEYS = 4;
/** Small: ranges of several pages are read. */
const RANGE_PAGE_ROWS = 5;
/** After so many appends an entity's next key is used: lists stay short. */
const APPENDS_PER_KEY = 24;
/** One step of so many reads all keys of its entity. */
const RANGE_STEPS = 12;
/** Share of an Execute that inserts new rows among the transactions of such a seed, and of a touch among the steps. */
const INSERTS = 0.2;
const TOUCHES = 0.15;
/** Share of those Executes whose keys no other call inserts, and the first of these keys. */
const OWN_INSERTS = 0.6;
const OWN_KEYS_FROM = 1_000_000n;
/** Share of the reads of such a seed before which all keys are read by the index. */
const INDEX_READS = 0.25;
/** Longest time between the read of a touch and its write: other transactions commit meanwhile. */
const TOUCH_PAUSE_MS = 60;
/** Appends of such a seed that leave the key of the index row as it is and change its copy. */
const APPENDS_PER_SIZE = 4;
/** The size that a touch writes; the next append writes its own. */
const TOUCHED_SIZE = 99;
/** No transaction writes this row. Transactions that begin with it hold no lock on a row that they read. */
const UNUSED_KEY = -1n;
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
  readonly hasEveryOperation: boolean;
  elements: number;
  isOver: boolean;
}

/** `everyOperation`: share of the seeds with every operation; transactions of the others lock each row that they read, nothing else is called. */
export function newListRun(cluster: Cluster, entities: number, pauseMs: number, everyOperation: number): ListRun {
  const appends = Array.from({ length: entities }, () => 0);
  const hasEveryOperation = cluster.world.random("list-operations").chance(everyOperation);
  return { cluster, history: [], appends, keysUsed: new Set(), failures: [], pauseMs, hasEveryOperation, elements: 0, isOver: false };
}

export async function appendToLists(run: ListRun, db: ConcordClient, env: Environment, client: string): Promise<void> {
  const { world } = run.cluster;
  const random = run.hasEveryOperation ? world.random(`list-operations:${client}`) : undefined;
  for (let n = 1; !run.isOver; n += 1) {
    const name = `${client}-${n}`;
    world.callsInFlight += 1;
    if (random?.chance(INSERTS) === true) await insertLists(run, db, random, name);
    else await listTransaction(run, db, env, name, random);
    world.callsInFlight -= 1;
    await sleep(env.clock, env.random.below(1 + run.cluster.swarm.thinkMs));
  }
}

/** Runs one transaction and records every try of it: only the last one may have had an effect. */
async function listTransaction(
  run: ListRun,
  db: ConcordClient,
  env: Environment,
  name: string,
  random: SeededRandom | undefined,
): Promise<void> {
  const { world, swarm } = run.cluster;
  const entity = BigInt(env.random.below(run.appends.length));
  const drawn = drawPlan(run, env, entity);
  const plan = random === undefined ? drawn : drawn.flatMap((step) => withEveryOperation(step, random));
  const [first] = drawn;
  const isLocked = random === undefined && first!.kind !== "range";
  const where: Entity = { table: "lists", key: { entity, k: isLocked ? first!.key : random === undefined ? 0n : UNUSED_KEY } };
  const tries: { readonly startedAt: number; readonly operations: MicroOperation[] }[] = [];
  const startedAt = world.nowMs;
  const work = async (txn: Transaction): Promise<void> => {
    const operations: MicroOperation[] = [];
    tries.push({ startedAt, operations });
    for (const step of plan) {
      if (run.pauseMs > 0) await sleep(env.clock, env.random.below(run.pauseMs));
      await listStep(run, txn, env, entity, step, operations);
    }
  };
  const mode = isLocked && first!.kind === "append" ? "exclusive" : "shared";
  const outcome = await outcomeAs(run, name, db.runTransaction(where, work, { deadlineMs: swarm.timeoutMs, mode }));
  tries.forEach(({ startedAt: at, operations }, index) => {
    const isLast = index === tries.length - 1;
    run.history.push({ name: `${name}.${index + 1}`, outcome: isLast ? outcome : "fail", startedAt: at, endedAt: world.nowMs, operations });
  });
  if (random !== undefined && outcome === "ok") await lookAtOwn(run, db, random, entity, tries.at(-1)!.operations);
}

/**
 * Inserts new lists of an entity by one Execute, which its client repeats with one id, at another master too: the outcome of its first try is the
 * answer (TXD7). Lists that no other call inserts are refused only when a repeat is taken for a new call and finds the rows of the first try.
 */
async function insertLists(run: ListRun, db: ConcordClient, random: SeededRandom, name: string): Promise<void> {
  const { world, swarm } = run.cluster;
  const at = random.below(run.appends.length);
  const entity = BigInt(at);
  const isOwn = random.chance(OWN_INSERTS);
  const soonUsed = Math.floor(run.appends[at]! / APPENDS_PER_KEY) + LIVE_KEYS + random.below(2 * LIVE_KEYS);
  const next = isOwn ? OWN_KEYS_FROM + BigInt(run.elements) : BigInt(soonUsed);
  const operations: MicroOperation[] = [];
  const writes = [next, next + 1n].slice(0, 1 + random.below(2)).map((k) => {
    const key = `${entity}/${k}`;
    run.keysUsed.add(key);
    run.elements += 1;
    if (!isOwn) run.appends[at]! += 1;
    operations.push({ kind: "read", key, elements: [] }, { kind: "append", key, element: run.elements });
    return { insertNew: "lists", row: { entity, k, elements: String(run.elements), size: 1 } };
  });
  const startedAt = world.nowMs;
  const call = db.execute(writes, { timeoutMs: swarm.timeoutMs }).catch((thrown: unknown) => {
    if (isOwn && isRowExists(thrown)) world.violation("execute repeated as new", `${name}: ${String(thrown)}`);
    throw thrown;
  });
  const outcome = await outcomeAs(run, name, call);
  world.count(`sim:op-insert-${outcome}`);
  run.history.push({ name, outcome, startedAt, endedAt: world.nowMs, operations });
  if (outcome === "ok") await lookAtOwn(run, db, random, entity, operations);
}

function outcomeAs(run: ListRun, name: string, call: Promise<unknown>): Promise<"ok" | "fail" | "info"> {
  return call.then(
    (): "ok" => "ok",
    (thrown: unknown) => failure(run, name, thrown),
  );
}

type Step =
  | { readonly kind: "read" | "append"; readonly key: bigint; readonly by: RowRead }
  /** Every key of the entity at once, as a range of the table or by its index. */
  | { readonly kind: "range"; readonly by: "table" | "index" }
  /** Reads a row without a lock and writes another column of it later: what was committed in between stays. */
  | { readonly kind: "touch"; readonly key: bigint; readonly pauseMs: number };

function drawPlan(run: ListRun, env: Environment, entity: bigint): Exclude<Step, { kind: "touch" }>[] {
  const base = Math.floor(run.appends[Number(entity)]! / APPENDS_PER_KEY);
  const isReader = env.random.below(4) === 0;
  return Array.from({ length: 1 + env.random.below(4) }, () => {
    if (env.random.below(RANGE_STEPS) === 0) return { kind: "range", by: env.random.below(2) === 0 ? "table" : "index" };
    const key = BigInt(base + env.random.below(LIVE_KEYS));
    return { kind: !isReader && env.random.below(2) === 0 ? "append" : "read", key, by: "lock" };
  });
}

function withEveryOperation(step: Exclude<Step, { kind: "touch" }>, random: SeededRandom): Step[] {
  if (step.kind === "range") return [step];
  if (random.chance(TOUCHES)) return [{ kind: "touch", key: step.key, pauseMs: random.below(TOUCH_PAUSE_MS) }];
  if (step.kind === "read" && random.chance(INDEX_READS)) return [{ kind: "range", by: "index" }, step];
  return [{ ...step, by: random.pick(ROW_READS) }];
}

async function listStep(
  run: ListRun,
  txn: Transaction,
  env: Environment,
  entity: bigint,
  step: Step,
  operations: MicroOperation[],
): Promise<void> {
  switch (step.kind) {
    case "range": {
      const found = await readAllOf(txn, entity, step.by);
      operations.push({ kind: "read-range", prefix: `${entity}/`, found });
      return;
    }
    case "touch":
      return touchRow(run, txn, env, entity, step);
    case "read":
    case "append": {
      run.keysUsed.add(`${entity}/${step.key}`);
      const rows = await readRows(txn, entity, step.key, step.by, step.kind === "append" ? "exclusive" : "shared");
      for (const [k, row] of rows) operations.push({ kind: "read", key: `${entity}/${k}`, elements: elementsOf(row) });
      if (step.kind === "append") append(run, txn, entity, step.key, rows.get(step.key), operations);
    }
  }
}

function append(run: ListRun, txn: Transaction, entity: bigint, k: bigint, row: ListRow | undefined, operations: MicroOperation[]): void {
  run.elements += 1;
  run.appends[Number(entity)]! += 1;
  operations.push({ kind: "append", key: `${entity}/${k}`, element: run.elements });
  const elements = row === undefined ? String(run.elements) : `${row.elements} ${run.elements}`;
  const size = elementsOf(row).length + 1;
  const written = { entity, k, elements, size: run.hasEveryOperation ? Math.ceil(size / APPENDS_PER_SIZE) : size };
  if (row === undefined) txn.insert("lists", written);
  else txn.update("lists", written);
}

async function touchRow(
  run: ListRun,
  txn: Transaction,
  env: Environment,
  entity: bigint,
  { key: k, pauseMs }: { readonly key: bigint; readonly pauseMs: number },
): Promise<void> {
  const row = await txn.read("lists", { entity, k }, { lock: "none" });
  if (row === undefined) return;
  await sleep(env.clock, pauseMs);
  txn.update("lists", { entity, k, size: TOUCHED_SIZE });
  run.cluster.world.count("sim:op-touch");
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
  // A list was not new: a right answer, and no failure.
  if (!isRowExists(thrown)) run.failures.push(`${name}: ${String(thrown)}`);
  return outcomeOf(thrown);
}

function isRowExists(thrown: unknown): boolean {
  return thrown instanceof ConcordClientError && thrown.code === "PRECONDITION_FAILED";
}

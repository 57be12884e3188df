import { checkBank, checkListAppend, type BankRead, type MicroOperation, type Transaction as CheckedTransaction } from "@concord/checkers";
import type { ConcordClient, Entity, Transaction } from "@concord/client";
import { sleep, type Environment } from "@concord/runtime";
import type { Cluster } from "../cluster.ts";
import { outcomeOf, reportBug } from "../outcome.ts";
import type { Outcomes } from "../run-seed.ts";
import { COORDINATOR_POINTS, finish, RECOVERY_MS, runFaults, startAll } from "./course.ts";

const ENTITIES = 4n;
const LIVE_KEYS = 4;
/** After so many appends an entity's next key is used: lists stay short. */
const APPENDS_PER_KEY = 24;
const ACCOUNTS = 5n;
const START_BALANCE = 100n;
const TABLES = [
  "CREATE TABLE lists (entity bigint, k bigint, elements text, PRIMARY KEY (entity, k))",
  "CREATE TABLE accounts (bank bigint, account bigint, balance bigint, PRIMARY KEY (bank, account))",
];

interface Run {
  readonly cluster: Cluster;
  readonly history: CheckedTransaction[];
  readonly bankReads: BankRead[][];
  readonly appends: number[];
  readonly keysUsed: Set<string>;
  elements: number;
  isOver: boolean;
}

interface ListRow {
  readonly elements: string;
}

/** List-append and bank transactions through the client library: strictly serializable whatever fails. */
export async function runTxnScenario(cluster: Cluster): Promise<Outcomes> {
  const { world, swarm } = cluster;
  const banks = Array.from({ length: Number(ENTITIES) }, () => [] as BankRead[]);
  const run: Run = { cluster, history: [], bankReads: banks, appends: banks.map(() => 0), keysUsed: new Set(), elements: 0, isOver: false };
  const { admin, clients } = await startAll(cluster, TABLES);
  await world.complete(openBanks(admin.db), 60_000);
  const work = clients.map(({ db, env }, at) =>
    swarm.clients > 3 && at === 0 ? transferMoney(run, db, env) : appendToLists(run, db, env, `c${at}`),
  );
  await runFaults(cluster, COORDINATOR_POINTS);
  run.isOver = true;
  await finish(cluster, work);
  await readAll(run, admin.db);
  judge(run);
  return countOutcomes(run.history);
}

async function openBanks(db: ConcordClient): Promise<void> {
  for (let bank = 0n; bank < ENTITIES; bank += 1n) {
    await db.runTransaction({ table: "accounts", key: { bank, account: 0n } }, async (txn) => {
      for (let account = 0n; account < ACCOUNTS; account += 1n) txn.insert("accounts", { bank, account, balance: START_BALANCE });
    });
  }
}

async function appendToLists(run: Run, db: ConcordClient, env: Environment, client: string): Promise<void> {
  for (let n = 1; !run.isOver; n += 1) {
    await listTransaction(run, db, env, `${client}-${n}`);
    await sleep(env.clock, env.random.below(1 + run.cluster.swarm.thinkMs));
  }
}

/** Runs one transaction and records every try of it: only the last one may have had an effect. */
async function listTransaction(run: Run, db: ConcordClient, env: Environment, name: string): Promise<void> {
  const { world, swarm } = run.cluster;
  const entity = BigInt(env.random.below(Number(ENTITIES)));
  const plan = drawPlan(run, env, entity);
  const where: Entity = { table: "lists", key: { entity, k: plan[0]!.key } };
  const tries: { readonly startedAt: number; readonly operations: MicroOperation[] }[] = [];
  const startedAt = world.nowMs;
  const work = async (txn: Transaction): Promise<void> => {
    const operations: MicroOperation[] = [];
    tries.push({ startedAt, operations });
    for (const step of plan) await listStep(run, txn, entity, step, operations);
  };
  world.callsInFlight += 1;
  const outcome = await db
    .runTransaction(where, work, { deadlineMs: swarm.timeoutMs, mode: plan[0]!.appends ? "exclusive" : "shared" })
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

interface Step {
  readonly key: bigint;
  readonly appends: boolean;
}

function drawPlan(run: Run, env: Environment, entity: bigint): Step[] {
  const base = Math.floor(run.appends[Number(entity)]! / APPENDS_PER_KEY);
  const isReader = env.random.below(4) === 0;
  return Array.from({ length: 1 + env.random.below(4) }, () => ({
    key: BigInt(base + env.random.below(LIVE_KEYS)),
    appends: !isReader && env.random.below(2) === 0,
  }));
}

async function listStep(
  run: Run,
  txn: Transaction,
  entity: bigint,
  { key: k, appends }: Step,
  operations: MicroOperation[],
): Promise<void> {
  const key = `${entity}/${k}`;
  run.keysUsed.add(key);
  const row = await txn.lock<ListRow>("lists", { entity, k }, { mode: appends ? "exclusive" : "shared" });
  operations.push({ kind: "read", key, elements: elementsOf(row) });
  if (!appends) return;
  run.elements += 1;
  run.appends[Number(entity)]! += 1;
  operations.push({ kind: "append", key, element: run.elements });
  const elements = row === undefined ? String(run.elements) : `${row.elements} ${run.elements}`;
  if (row === undefined) txn.insert("lists", { entity, k, elements });
  else txn.update("lists", { entity, k, elements });
}

function elementsOf(row: ListRow | undefined): number[] {
  return row === undefined ? [] : row.elements.split(" ").map(Number);
}

async function transferMoney(run: Run, db: ConcordClient, env: Environment): Promise<void> {
  for (let n = 1; !run.isOver; n += 1) {
    const bank = BigInt(env.random.below(Number(ENTITIES)));
    const attempt = n % 3 === 0 ? readBank(run, db, bank, `bank read ${n}`, run.cluster.swarm.timeoutMs) : transfer(run, db, env, bank);
    await attempt.catch((thrown: unknown) => failure(run, `bank ${n}`, thrown));
    await sleep(env.clock, env.random.below(1 + run.cluster.swarm.thinkMs));
  }
}

async function transfer(run: Run, db: ConcordClient, env: Environment, bank: bigint): Promise<void> {
  const from = BigInt(env.random.below(Number(ACCOUNTS)));
  const to = (from + 1n + BigInt(env.random.below(Number(ACCOUNTS) - 1))) % ACCOUNTS;
  const amount = BigInt(1 + env.random.below(30));
  const work = async (txn: Transaction): Promise<void> => {
    const source = await txn.lock<{ balance: bigint }>("accounts", { bank, account: from });
    const target = await txn.lock<{ balance: bigint }>("accounts", { bank, account: to });
    if (source === undefined || target === undefined) throw new Error(`an account of bank ${bank} is gone`);
    if (source.balance < amount) return;
    txn.update("accounts", { bank, account: from, balance: source.balance - amount });
    txn.update("accounts", { bank, account: to, balance: target.balance + amount });
  };
  await db.runTransaction({ table: "accounts", key: { bank, account: from } }, work, { deadlineMs: run.cluster.swarm.timeoutMs });
}

async function readBank(run: Run, db: ConcordClient, bank: bigint, name: string, deadlineMs: number): Promise<void> {
  const keys = Array.from({ length: Number(ACCOUNTS) }, (_, account) => ({ bank, account: BigInt(account) }));
  const work = (txn: Transaction): Promise<({ balance: bigint } | undefined)[]> => txn.lockMany("accounts", keys, { mode: "shared" });
  const rows = await db.runTransaction({ table: "accounts", key: keys[0]! }, work, { deadlineMs, mode: "shared" });
  const balances = new Map<string, bigint>();
  rows.forEach((row, at) => row !== undefined && balances.set(String(at), row.balance));
  run.bankReads[Number(bank)]!.push({ name, balances });
}

function failure(run: Run, name: string, thrown: unknown): "fail" | "info" {
  reportBug(run.cluster.world, name, thrown);
  return outcomeOf(thrown);
}

/** All is quiet: every key that was used, and every bank, in transactions of their own. This is also the proof of progress. */
async function readAll(run: Run, db: ConcordClient): Promise<void> {
  const { world } = run.cluster;
  const options = { deadlineMs: RECOVERY_MS, mode: "shared" as const };
  const read = async (): Promise<void> => {
    for (const key of run.keysUsed) {
      const [entity, k] = key.split("/").map(BigInt) as [bigint, bigint];
      const startedAt = world.nowMs;
      const where = { table: "lists", key: { entity, k } };
      const row = await db.runTransaction(where, (txn) => txn.lock<ListRow>("lists", { entity, k }, { mode: "shared" }), options);
      const operations: MicroOperation[] = [{ kind: "read", key, elements: elementsOf(row) }];
      run.history.push({ name: `final ${key}`, outcome: "ok", startedAt, endedAt: world.nowMs, operations });
    }
    for (let bank = 0n; bank < ENTITIES; bank += 1n) await readBank(run, db, bank, "final", RECOVERY_MS);
  };
  await world.complete(read(), 10 * RECOVERY_MS).catch((thrown: unknown) => world.violation("liveness", `final reads: ${String(thrown)}`));
}

function judge(run: Run): void {
  const { world } = run.cluster;
  for (const { kind, explanation } of checkListAppend(run.history).anomalies)
    world.violation(`list-append ${kind}`, explanation.join("; "));
  const accounts = Array.from({ length: Number(ACCOUNTS) }, (_, at) => String(at));
  const rules = { accounts, total: ACCOUNTS * START_BALANCE, mayBeNegative: false };
  run.bankReads.forEach((reads, bank) => {
    for (const anomaly of checkBank(rules, reads)) {
      const text = JSON.stringify(anomaly, (_, value: unknown) => (typeof value === "bigint" ? String(value) : value));
      world.violation(`bank ${anomaly.kind}`, `bank ${bank}: ${text}`);
    }
  });
}

function countOutcomes(history: readonly CheckedTransaction[]): Outcomes {
  const counts = { ok: 0, fail: 0, info: 0 };
  for (const { outcome } of history) counts[outcome] += 1;
  return counts;
}

import { checkBank, type BankRead } from "@concord/checkers";
import type { ConcordClient, Transaction } from "@concord/client";
import { sleep, type Environment } from "@concord/runtime";
import type { Cluster } from "../cluster.ts";
import { reportBug } from "../outcome.ts";
import type { Outcomes } from "../outcomes.ts";
import { COORDINATOR_POINTS, finish, RECOVERY_MS, rottingOf, runFaults, startAll } from "./course.ts";
import { Counters, COUNTERS, COUNTERS_TABLE } from "./counters.ts";
import { Documents, DOCUMENTS_TABLES } from "./documents.ts";
import { OLD_IDS, OLD_IDS_TABLE, repeatOldIds } from "./old-ids.ts";
import { appendToLists, countOutcomes, judgeLists, LISTS_TABLES, newListRun, readLists, type ListRun } from "./lists.ts";

const ENTITIES = 4n;
const EVERY_OPERATION = 0.35;
const ACCOUNTS = 5n;
const START_BALANCE = 100n;
/** Ids grow old within this time. */
const OLD_IDS_MS = 180_000;
const TABLES = [...LISTS_TABLES, "CREATE TABLE accounts (bank bigint, account bigint, balance bigint, PRIMARY KEY (bank, account))"];
/** Seeds whose clients think this long have one that writes documents, the others run as they did before there were any. */
const DOCUMENTS_THINK_MS = 20;

interface Run {
  readonly lists: ListRun;
  readonly bankReads: BankRead[][];
  readonly documents: Documents | undefined;
}

/** List-append, bank and document transactions through the client library: strictly serializable whatever fails. */
export async function runTxnScenario(cluster: Cluster): Promise<Outcomes> {
  const { world, swarm } = cluster;
  const banks = Array.from({ length: Number(ENTITIES) }, () => [] as BankRead[]);
  const lists = newListRun(cluster, Number(ENTITIES), 0, EVERY_OPERATION);
  const documents = swarm.clients > 2 && swarm.thinkMs === DOCUMENTS_THINK_MS ? new Documents(cluster) : undefined;
  const run: Run = { lists, bankReads: banks, documents };
  const haveOldIds = world.random("old-ids").chance(OLD_IDS);
  const counters = world.random("counters").chance(COUNTERS) ? new Counters(cluster) : undefined;
  const countersTables = counters === undefined ? [] : [COUNTERS_TABLE];
  const tables = [
    ...TABLES,
    ...countersTables,
    ...(documents === undefined ? [] : DOCUMENTS_TABLES),
    ...(haveOldIds ? [OLD_IDS_TABLE] : []),
  ];
  const { admin, clients } = await startAll(cluster, tables);
  await world.complete(openBanks(admin.db), 60_000);
  const work = clients.map(({ db, env }, at) => {
    if (documents !== undefined && at === 1) return documents.write(db, env);
    return swarm.clients > 3 && at === 0 ? transferMoney(run, db, env) : appendToLists(lists, db, env, `c${at}`);
  });
  if (counters !== undefined) work.push(...clients.map(({ env }, at) => counters.count(env, at)));
  await runFaults(cluster, COORDINATOR_POINTS, rottingOf(cluster));
  lists.isOver = true;
  if (documents !== undefined) documents.isOver = true;
  if (counters !== undefined) counters.isOver = true;
  await finish(cluster, work);
  await readAll(run, admin.db, counters);
  if (haveOldIds) {
    await world.complete(repeatOldIds(cluster, admin, RECOVERY_MS), OLD_IDS_MS).catch((thrown: unknown) => {
      world.violation("liveness", `old ids: ${String(thrown)}`);
    });
  }
  judgeLists(lists);
  judgeBanks(run);
  return countOutcomes(lists.history);
}

async function openBanks(db: ConcordClient): Promise<void> {
  for (let bank = 0n; bank < ENTITIES; bank += 1n) {
    await db.runTransaction({ table: "accounts", key: { bank, account: 0n } }, async (txn) => {
      for (let account = 0n; account < ACCOUNTS; account += 1n) txn.insert("accounts", { bank, account, balance: START_BALANCE });
    });
  }
}

async function transferMoney(run: Run, db: ConcordClient, env: Environment): Promise<void> {
  const { world, swarm } = run.lists.cluster;
  for (let n = 1; !run.lists.isOver; n += 1) {
    const bank = BigInt(env.random.below(Number(ENTITIES)));
    const read = n % 6 === 0 ? sumBank : readBank;
    const attempt = n % 3 === 0 ? read(run.bankReads, db, bank, `bank read ${n}`, swarm.timeoutMs) : transfer(run, db, env, bank);
    await attempt.catch((thrown: unknown) => reportBug(world, `bank ${n}`, thrown));
    await sleep(env.clock, env.random.below(1 + swarm.thinkMs));
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
  await db.runTransaction({ table: "accounts", key: { bank, account: from } }, work, { deadlineMs: run.lists.cluster.swarm.timeoutMs });
}

async function readBank(bankReads: BankRead[][], db: ConcordClient, bank: bigint, name: string, deadlineMs: number): Promise<void> {
  const keys = Array.from({ length: Number(ACCOUNTS) }, (_, account) => ({ bank, account: BigInt(account) }));
  const work = (txn: Transaction): Promise<({ balance: bigint } | undefined)[]> => txn.lockMany("accounts", keys, { mode: "shared" });
  const rows = await db.runTransaction({ table: "accounts", key: keys[0]! }, work, { deadlineMs, mode: "shared" });
  const balances = new Map<string, bigint>();
  rows.forEach((row, at) => row !== undefined && balances.set(String(at), row.balance));
  bankReads[Number(bank)]!.push({ name, balances });
}

/** As one range, in pages of two. */
async function sumBank(bankReads: BankRead[][], db: ConcordClient, bank: bigint, name: string, deadlineMs: number): Promise<void> {
  const work = async (txn: Transaction): Promise<Map<string, bigint>> => {
    const balances = new Map<string, bigint>();
    const range = { partition: { bank }, pageSize: 2 };
    for await (const row of txn.readRange<{ account: bigint; balance: bigint }>("accounts", range)) {
      balances.set(String(row.account), row.balance);
    }
    return balances;
  };
  const balances = await db.runTransaction({ table: "accounts", key: { bank, account: ACCOUNTS } }, work, { deadlineMs, mode: "shared" });
  bankReads[Number(bank)]!.push({ name, balances });
}

/** All is quiet: every list, every bank and every document. This is also the proof of progress. */
async function readAll({ lists, bankReads, documents }: Run, db: ConcordClient, counters: Counters | undefined): Promise<void> {
  const { world } = lists.cluster;
  const read = async (): Promise<void> => {
    await readLists(lists, db, RECOVERY_MS);
    await counters?.judge(db, RECOVERY_MS);
    for (let bank = 0n; bank < ENTITIES; bank += 1n) await readBank(bankReads, db, bank, "final", RECOVERY_MS);
    await documents?.judge(db, RECOVERY_MS);
  };
  await world.complete(read(), 10 * RECOVERY_MS).catch((thrown: unknown) => world.violation("liveness", `final reads: ${String(thrown)}`));
}

function judgeBanks({ lists, bankReads }: Run): void {
  const { world } = lists.cluster;
  const accounts = Array.from({ length: Number(ACCOUNTS) }, (_, at) => String(at));
  const rules = { accounts, total: ACCOUNTS * START_BALANCE, mayBeNegative: false };
  bankReads.forEach((reads, bank) => {
    for (const anomaly of checkBank(rules, reads)) {
      const text = JSON.stringify(anomaly, (_, value: unknown) => (typeof value === "bigint" ? String(value) : value));
      world.violation(`bank ${anomaly.kind}`, `bank ${bank}: ${text}`);
    }
  });
}

// The backup of a ring of docs/operations.md, as a drill: in full load all nodes are stopped, their folders and those that they share are copied, and
// they go on; then all is lost and put back. What was acknowledged before the stop is there, nothing is torn, leaked or dangling.
import assert from "node:assert/strict";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test, type TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { PutObjectCommand } from "@aws-sdk/client-s3";
import { connect, type ConcordClient } from "@concord/client";
import { s3Client } from "./clients/s3.ts";
import { startConstellation, type Constellation } from "./constellation.ts";
import { ListLoad } from "./list-load.ts";
import { ObjectMessageLoad } from "./object-message-load.ts";

const NODES = ["concord-1", "concord-2", "concord-3"] as const;
const SHARED = ["objects", "messages"] as const;
/** Three nodes start at once, beside other tests. */
const READY_MS = 480_000;
const LOAD_MS = 1_500;
const BANKS = [1n, 2n, 3n, 4n, 5n, 6n];
const ACCOUNTS = 4;
const BALANCE = 1_000;
const RETRY_MS = 50;

let folder: string;
let constellation: Constellation;
let db: ConcordClient;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "concord-ring-backup-"));
  constellation = await startConstellation({
    dataFolder: join(folder, "ring"),
    portBase: "free",
    members: { concord: 3 },
    readyTimeoutMs: READY_MS,
  });
  db = await connected();
});

const connected = (): Promise<ConcordClient> =>
  connect({ coordinators: constellation.coordinators, dedupWorker: constellation.dedupWorkers, timeoutMs: 30_000 });

after(async () => {
  db?.close();
  await constellation?.stop();
  rmSync(folder, { recursive: true, force: true });
});

interface Account {
  readonly id: number;
  readonly balance: number;
}

const keyOf = (bank: bigint, id: number): { bank: bigint; id: number } => ({ bank, id });

async function openBanks(): Promise<void> {
  await db.createTables(["CREATE TABLE accounts (bank bigint, id int, balance int, PRIMARY KEY (bank, id))"]);
  for (const bank of BANKS) for (let id = 0; id < ACCOUNTS; id += 1) await db.insert("accounts", { ...keyOf(bank, id), balance: BALANCE });
}

/** A copy that holds half of it has another sum. */
async function transfer(bank: bigint, turn: number): Promise<void> {
  const [from, to] = [turn % ACCOUNTS, (turn + 1 + (turn % 3)) % ACCOUNTS];
  await db.runTransaction({ table: "accounts", key: keyOf(bank, from) }, async (txn) => {
    const source = await txn.lock<Account>("accounts", keyOf(bank, from));
    const target = await txn.lock<Account>("accounts", keyOf(bank, to));
    txn.update("accounts", { ...keyOf(bank, from), balance: source!.balance - 1 });
    txn.update("accounts", { ...keyOf(bank, to), balance: target!.balance + 1 });
  });
}

async function sumOf(bank: bigint): Promise<number> {
  const keys = Array.from({ length: ACCOUNTS }, (_, id) => keyOf(bank, id));
  const rows = await db.readMany<Account>("accounts", keys);
  return rows.reduce((sum, row) => sum + row!.balance, 0);
}

/** Transfers, messages and objects without a promise: the copies are made amid them. */
class Unpromised {
  readonly #stopping = new AbortController();
  readonly #loops: readonly Promise<void>[];
  done = 0;

  constructor() {
    const { s3Endpoints, tokens } = constellation;
    const gateways = s3Endpoints.map((endpoint) => s3Client(endpoint, tokens.accessKeys[0]!, 1));
    const put = (turn: number): Promise<unknown> => {
      const command = new PutObjectCommand({
        Bucket: "nodes",
        Key: `later/${turn}`,
        Body: Buffer.alloc(turn % 2 === 0 ? 100_000 : 40_000, turn),
      });
      return gateways[turn % gateways.length]!.send(command, { abortSignal: AbortSignal.timeout(5_000) });
    };
    const ingest = (turn: number): Promise<unknown> => db.messages.ingest([{ id: `later-${turn}`, value: "later" }]);
    this.#loops = [...BANKS.map((bank) => this.#repeat((turn) => transfer(bank, turn))), this.#repeat(put), this.#repeat(ingest)];
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.all(this.#loops);
  }

  async #repeat(work: (turn: number) => Promise<unknown>): Promise<void> {
    for (let turn = 0; !this.#stopping.signal.aborted; turn += 1) {
      await work(turn).then(
        () => void (this.done += 1),
        () => sleep(RETRY_MS),
      );
    }
  }
}

/** As docs/operations.md says it. */
async function backUp(backup: string): Promise<void> {
  await Promise.all(NODES.map((node) => constellation.process(node).stop()));
  for (const name of [...NODES, ...SHARED]) cpSync(join(folder, "ring", name), join(backup, name), { recursive: true });
  await Promise.all(NODES.map((node) => constellation.restart(node)));
}

async function loseAndRestore(backup: string): Promise<void> {
  await Promise.all(NODES.map((node) => constellation.kill(node)));
  for (const name of [...NODES, ...SHARED]) {
    const place = join(folder, "ring", name);
    rmSync(place, { recursive: true });
    cpSync(join(backup, name), place, { recursive: true });
  }
  await Promise.all(NODES.map((node) => constellation.restart(node)));
}

test("backup of a ring: stopped in load and copied, it goes on, all is lost and put back: all of before the stop, nothing torn, leaked or dangling", async (context: TestContext) => {
  await openBanks();
  const clients = [db];
  const lists = await ListLoad.start({ clients, writers: 2, pauseMs: 0 });
  const objectClient = await connected();
  const objects = await ObjectMessageLoad.start({ constellation, db: objectClient, pauseMs: 0 });
  context.after(async () => {
    lists.close();
    objectClient.close();
    await objects.close();
  });
  await sleep(LOAD_MS);
  await Promise.all([lists.stop(), objects.stop()]);
  assert.ok(lists.commits.length > 0 && objects.objects > 0 && objects.messages > 0);
  const amid = new Unpromised();
  context.after(() => amid.stop());
  await sleep(LOAD_MS);
  const backup = join(folder, "backup");
  await backUp(backup);
  await sleep(LOAD_MS);
  await amid.stop();
  assert.ok(amid.done > 0);
  await loseAndRestore(backup);
  // One of before has seen commits that are gone, and its reads would wait for them.
  db = await connected();
  clients.splice(0, 1, db).forEach((one) => one.close());
  context.diagnostic(
    `${lists.commits.length} commits, ${objects.objects} objects, ${objects.messages} messages before; ${amid.done} amid the copies`,
  );
  assert.equal(await lists.check(), undefined);
  assert.equal(await objects.check(), undefined);
  for (const bank of BANKS) assert.equal(await sumOf(bank), ACCOUNTS * BALANCE, `bank ${bank}`);
  for (const bank of BANKS) await transfer(bank, 1);
  for (const bank of BANKS) assert.equal(await sumOf(bank), ACCOUNTS * BALANCE, `bank ${bank}, after another transfer`);
});

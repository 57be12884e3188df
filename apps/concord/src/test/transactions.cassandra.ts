// The real program on a real Cassandra node: schema, transactions, rows of objects, killed and started again, a second one that takes over.
import assert from "node:assert/strict";
import { spawnSync, type SpawnSyncReturns } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { CreateBucketCommand, GetObjectCommand, ListObjectsV2Command, PutObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { nodeClock, nodeRandom } from "@concord/adapter-node-runtime";
import { connect, type ConcordClient } from "@concord/client";
import { TransactionService } from "@concord/protos-txn";
import { callUnary } from "@concord/rpc";
import { newTimeId, timeIdToBytes } from "@concord/runtime";
import { ACCESS_KEY, network } from "./memory-node.ts";
import { ended, Processes } from "./process.ts";
import { visit, where } from "./visits.ts";

const folder = await mkdtemp(join(tmpdir(), "concord-cassandra-"));
const processes = new Processes();
after(async () => {
  processes.end();
  await rm(folder, { recursive: true });
});

const KEYSPACE = `concord_${randomBytes(6).toString("hex")}`;
const CASSANDRA = [
  "--backend",
  "cassandra",
  "--cassandra-contact-points",
  process.env["ENGINE_CASSANDRA"] ?? "",
  "--cassandra-datacenter",
  "dc1",
  "--cassandra-keyspace",
  KEYSPACE,
  "--cassandra-replicas",
  '{"dc1": 1}',
  // The only node is shared with everything else on this machine.
  "--read-timeout-ms",
  "10000",
  "--write-timeout-ms",
  "10000",
];
/** A node that has just started compiles what it is asked first, beside all else on this machine: time enough, and a limit for what hangs. */
const PATIENT = { timeoutMs: 60_000, deadlineMs: 60_000 };
const args = (name: string): string[] => [...CASSANDRA, "--data-folder", join(folder, name)];

function schema(command: "plan" | "apply"): SpawnSyncReturns<string> {
  const main = join(import.meta.dirname, "../main.ts");
  const keys = ["--access-keys", JSON.stringify([ACCESS_KEY])];
  return spawnSync(process.execPath, [main, "schema", command, ...keys, ...args("schema")], { encoding: "utf8" });
}

test("[TXC1] schema: without it the program refuses to start and says what to do; plan prints, apply makes it, once", async () => {
  const refused = await processes.run(args("refused"));
  assert.notEqual(refused.code, 0);
  assert.match(refused.output, /schema apply/);
  const plan = schema("plan");
  assert.deepEqual([plan.status, /CREATE KEYSPACE/.test(plan.stdout)], [0, true], plan.stderr);
  const apply = schema("apply");
  assert.deepEqual([apply.status, /went from version 0 to 2/.test(apply.stdout)], [0, true], apply.stderr);
  assert.match(schema("plan").stdout, /nothing to do/);
});

test("[TXC1] [TXC2] [TX27] transactions: committed, read outside of them, the program killed, started again: all there, and it goes on", async () => {
  const first = await processes.start(args("a"));
  const db = await connect({ coordinators: [first.address], dedupWorker: first.address, timeoutMs: PATIENT.timeoutMs });
  await db.createTables(["CREATE TABLE visits (page text PRIMARY KEY, visits int)"]);
  for (let count = 1; count <= 5; count += 1) {
    assert.equal(await visit(db, PATIENT), count);
    assert.equal((await db.read<{ visits: number }>("visits", where.key))?.visits, count, "a read sees the client's own commit");
  }
  await ended(first.child, "SIGKILL");
  db.close();
  const second = await processes.start(args("b"));
  const again = await connect({ coordinators: [second.address], dedupWorker: second.address, timeoutMs: PATIENT.timeoutMs });
  assert.equal(await visit(again, PATIENT), 6);
  assert.equal((await again.read<{ visits: number }>("visits", where.key))?.visits, 6);
  again.close();
  assert.equal(await ended(second.child, "SIGTERM"), 0);
});

const RACERS = 8;
const ROUNDS = 5;
const raiseTo = (visits: number): string => `UPDATE visits SET visits = ${visits} WHERE page = '/race' IF visits = ${visits - 1}`;

/** The same step by several clients at once: one is applied, each other gets the row as it then was. */
async function raceTo(clients: readonly ConcordClient[], visits: number): Promise<void> {
  const answers = await Promise.all(clients.map((db) => db.executeIf(raiseTo(visits), [], PATIENT)));
  const refused = answers.filter((answer) => !answer.applied);
  assert.equal(refused.length, clients.length - 1, `exactly one raised it to ${visits}`);
  for (const { failed } of refused) assert.deepEqual(failed[0]!.row?.["visits"], visits);
}

test("[UN20] conditions: clients execute the same compare-and-set at once: one of them is applied, the others get the row it wrote", async () => {
  const { child, address } = await processes.start(args("race"));
  const at = { coordinators: [address], dedupWorker: address, timeoutMs: PATIENT.timeoutMs };
  const clients = await Promise.all(Array.from({ length: RACERS }, () => connect(at)));
  const [db] = clients;
  await db!.createTables(["CREATE TABLE IF NOT EXISTS visits (page text PRIMARY KEY, visits int)"]);
  const first = "INSERT INTO visits (page, visits) VALUES ('/race', 0) IF NOT EXISTS";
  const begun = await Promise.all(clients.map((one) => one.executeIf(first, [], PATIENT)));
  assert.equal(begun.filter(({ applied }) => applied).length, 1);
  for (let visits = 1; visits <= ROUNDS; visits += 1) await raceTo(clients, visits);
  assert.equal((await db!.read<{ visits: number }>("visits", { page: "/race" }))?.visits, ROUNDS);
  for (const one of clients) one.close();
  assert.equal(await ended(child, "SIGTERM"), 0);
});

test("[UN20] conditions: the replies of an applied and a refused Execute are lost, the process is killed: the next one answers both as before", async () => {
  const execute = (
    address: string,
    transactionId: Uint8Array,
    text: string,
  ): Promise<{ readonly token: unknown; readonly failed: unknown }> =>
    callUnary(network().connect(address), TransactionService.methods.Execute, { transactionId, statement: { text } }, PATIENT);
  const newId = (): Uint8Array => timeIdToBytes(newTimeId(nodeClock, nodeRandom));
  const [applied, refused] = [newId(), newId()];
  const first = await processes.start(args("lost-a"));
  const made = await execute(first.address, newId(), "INSERT INTO visits (page, visits) VALUES ('/lost', 1) IF NOT EXISTS");
  assert.notEqual(made.token, null);
  const [toTwo, fromSeven] = [
    "UPDATE visits SET visits = 2 WHERE page = '/lost' IF visits = 1",
    "UPDATE visits SET visits = 8 WHERE page = '/lost' IF visits = 7",
  ];
  const raised = await execute(first.address, applied, toTwo);
  const answer = await execute(first.address, refused, fromSeven);
  assert.deepEqual([raised.token === null, answer.token === null], [false, true]);
  // The refused one would hold now: its copy must not be applied.
  await execute(first.address, newId(), "UPDATE visits SET visits = 7 WHERE page = '/lost' IF visits = 2");
  await ended(first.child, "SIGKILL");
  const second = await processes.start(args("lost-b"));
  assert.deepEqual(await execute(second.address, refused, fromSeven), answer);
  assert.deepEqual((await execute(second.address, applied, toTwo)).token, raised.token);
  const db = await connect({ coordinators: [second.address], dedupWorker: second.address, timeoutMs: PATIENT.timeoutMs });
  assert.equal((await db.read<{ visits: number }>("visits", { page: "/lost" }))?.visits, 7, "neither copy was applied");
  db.close();
  assert.equal(await ended(second.child, "SIGTERM"), 0);
});

const s3At = (httpAddress: string): S3Client =>
  new S3Client({ endpoint: `http://${httpAddress}`, region: "us-east-1", forcePathStyle: true, credentials: { ...ACCESS_KEY } });

test("[OGD15] objects: their rows are in Cassandra: what a killed process acknowledged is served and listed by the next one", async () => {
  const metadata = [...args("objects"), "--metadata", "storage"];
  const names = ["cat.txt", "dog.txt", "eel.txt"];
  const first = await processes.start(metadata);
  const s3 = s3At(first.httpAddress);
  await s3.send(new CreateBucketCommand({ Bucket: "photos" }));
  await Promise.all(names.map((Key) => s3.send(new PutObjectCommand({ Bucket: "photos", Key, Body: `of ${Key}` }))));
  s3.destroy();
  await ended(first.child, "SIGKILL");
  const second = await processes.start(metadata);
  const again = s3At(second.httpAddress);
  for (const Key of names) {
    const { Body } = await again.send(new GetObjectCommand({ Bucket: "photos", Key }));
    assert.equal(await Body!.transformToString(), `of ${Key}`);
  }
  const { Contents } = await again.send(new ListObjectsV2Command({ Bucket: "photos" }));
  assert.deepEqual(
    Contents?.map(({ Key }) => Key),
    names,
  );
  await again.send(new PutObjectCommand({ Bucket: "photos", Key: "cat.txt", Body: "new" }));
  const { Body } = await again.send(new GetObjectCommand({ Bucket: "photos", Key: "cat.txt" }));
  assert.equal(await Body!.transformToString(), "new");
  again.destroy();
  assert.equal(await ended(second.child, "SIGTERM"), 0);
});

// The real program on a real Cassandra node: schema, transactions, rows of objects, killed and started again, a second one that takes over.
import assert from "node:assert/strict";
import { spawnSync, type SpawnSyncReturns } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { CreateBucketCommand, GetObjectCommand, ListObjectsV2Command, PutObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { connect } from "@concord/client";
import { ACCESS_KEY } from "./memory-node.ts";
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

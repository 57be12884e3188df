// Makes folder.tar.gz, see README.md: runs in a worktree of that commit, with the client and the program of then.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { CreateBucketCommand, PutObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { connect } from "@concord/client";

const ACCESS_KEY = { accessKeyId: "CONCORD", secretAccessKey: "only-for-tests", tenant: "main" };
const ANY = "127.0.0.1:0";
const folder = process.argv[2];

/** Starts the program, works with it, and ends it by a signal. */
async function life(signal, work) {
  const flags = ["--data-folder", folder, "--listen-address", ANY, "--http-address", ANY, "--admin-address", ANY];
  flags.push("--group-count", "1", "--partitions", "2", "--access-keys", JSON.stringify([ACCESS_KEY]));
  const child = spawn(process.execPath, ["apps/concord/src/main.ts", ...flags], { stdio: ["ignore", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout });
  const ready = await new Promise((resolve) => {
    lines.on("line", (line) => {
      const entry = JSON.parse(line);
      if (entry.message === "ready") resolve(entry);
    });
  });
  const db = await connect({ coordinators: [ready.address], dedupWorker: ready.address });
  const endpoint = `http://${ready.httpAddress}`;
  const s3 = new S3Client({ endpoint, region: "us-east-1", forcePathStyle: true, credentials: { ...ACCESS_KEY } });
  await work(db, s3);
  child.kill(signal);
  await once(child, "exit");
  db.close();
  s3.destroy();
}

const from = (first, last, step = 1) => Array.from({ length: Math.ceil((last - first) / step) }, (_, n) => first + n * step);

const count = (db, n) =>
  db.runTransaction({ table: "visits", key: { page: `/page-${n}` } }, async (txn) => {
    await txn.lock("visits", { page: `/page-${n}` });
    txn.insert("visits", { page: `/page-${n}`, visits: n });
  });
const note = (db, n) => db.insert("notes", { id: BigInt(n), body: `note ${n}` });
const put = (s3, n) => s3.send(new PutObjectCommand({ Bucket: "photos", Key: `object-${n}`, Body: `object ${n} `.repeat(n * 400 + 1) }));
const send = (db, numbers) => db.messages.ingest(numbers.map((n) => ({ id: `message-${n}`, value: `message ${n}` })));

await life("SIGTERM", async (db, s3) => {
  await db.createTables([
    "CREATE TABLE visits (page text PRIMARY KEY, visits int)",
    "CREATE TABLE notes (id bigint PRIMARY KEY, body text) WITH kind = 'plain'",
  ]);
  for (const n of from(0, 200)) await note(db, n);
  for (const n of from(0, 40)) await count(db, n);
  await s3.send(new CreateBucketCommand({ Bucket: "photos" }));
  for (const n of from(0, 10)) await put(s3, n);
  await send(db, from(0, 20));
});

await life("SIGKILL", async (db, s3) => {
  for (const n of from(200, 300)) await note(db, n);
  for (const n of from(0, 300, 10)) await db.delete("notes", { id: BigInt(n) });
  for (const n of from(30, 60)) await count(db, n);
  for (const n of from(10, 15)) await put(s3, n);
  await send(db, from(20, 30));
});

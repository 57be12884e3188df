// The backup of docs/operations.md, as a drill: the data folder of a stopped node is copied, lost, and put back.
import assert from "node:assert/strict";
import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { GetObjectCommand, PutObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { connect, type ConcordClient } from "@concord/client";
import { fsckCommand } from "./fsck/fsck.ts";
import { startConcord } from "./index.ts";
import { KILLED_CONFIG, makeKilledNode, MESSAGES, messagesOf } from "./test/killed-node.ts";

async function withNode(dataFolder: string, use: (db: ConcordClient, s3: S3Client) => Promise<void>): Promise<void> {
  await using concord = await startConcord({ dataFolder, config: KILLED_CONFIG });
  const db = await connect({ coordinators: [concord.address], dedupWorker: concord.address });
  const s3 = new S3Client({ ...concord.s3, forcePathStyle: true });
  try {
    await use(db, s3);
  } finally {
    db.close();
    s3.destroy();
  }
}

async function put(db: ConcordClient, s3: S3Client, id: bigint, key: string, body: string): Promise<void> {
  await db.insert("notes", { id, body });
  await s3.send(new PutObjectCommand({ Bucket: "photos", Key: key, Body: body }));
}

async function bodyOf(s3: S3Client, key: string): Promise<string> {
  const { Body } = await s3.send(new GetObjectCommand({ Bucket: "photos", Key: key }));
  return Body!.transformToString();
}

test("backup: a stopped node's folder is copied, the node goes on and is lost, the copy is put back: rows, objects and messages as of the copy", async () => {
  const root = await mkdtemp(join(tmpdir(), "concord-backup-"));
  try {
    const [live, backup] = [await makeKilledNode(root), join(root, "backup")];
    await withNode(live, (db, s3) => put(db, s3, 1n, "dog", "before"));
    await cp(live, backup, { recursive: true });
    await withNode(live, (db, s3) => put(db, s3, 2n, "bird", "after"));
    await rm(live, { recursive: true });
    await cp(backup, live, { recursive: true });
    assert.equal(await fsckCommand([live], () => undefined), 0);
    await withNode(live, async (db, s3) => {
      assert.deepEqual(await db.read("notes", { id: 0n }), { id: 0n, body: "changed" });
      assert.deepEqual(await db.read("notes", { id: 1n }), { id: 1n, body: "before" });
      assert.notDeepEqual(await db.read("notes", { id: 2n }), { id: 2n, body: "after" });
      assert.deepEqual([await bodyOf(s3, "cat"), await bodyOf(s3, "dog")], ["meow", "before"]);
      await assert.rejects(bodyOf(s3, "bird"), { name: "NoSuchKey" });
      const verdicts = (await db.messages.ingest(messagesOf(MESSAGES + 1))).map(({ verdict }) => verdict);
      assert.deepEqual(verdicts, [...Array.from({ length: MESSAGES }, () => "duplicate"), "accepted"]);
    });
  } finally {
    await rm(root, { recursive: true, force: true });
  }
});

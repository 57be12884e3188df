// Data of a node that was killed at work: rows below a checkpoint and in journals, an object, messages.
import { cp } from "node:fs/promises";
import { join } from "node:path";
import { CreateBucketCommand, PutObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { connect } from "@concord/client";
import { startConcord } from "../index.ts";

export const KILLED_CONFIG = { groupCount: 1, partitions: 2 } as const;
export const MESSAGES = 20;
const ROWS = 300;

export const messagesOf = (count: number): { id: string; value: string }[] =>
  Array.from({ length: count }, (_, n) => ({ id: `m${n}`, value: "hello" }));

/** Makes `root/data`; note 0 is "changed", photos/cat is "meow", messages m0 to m19 are accepted. */
export async function makeKilledNode(root: string): Promise<string> {
  const [live, data] = [join(root, "live"), join(root, "data")];
  {
    await using concord = await startConcord({ dataFolder: live, config: KILLED_CONFIG });
    const db = await connect({ coordinators: [concord.address] });
    await db.createTables(["CREATE TABLE notes (id bigint PRIMARY KEY, body text)"]);
    for (let n = 0; n < ROWS; n += 1) await db.insert("notes", { id: BigInt(n), body: `note ${n} ${"x".repeat(100)}` });
    db.close();
  }
  await using concord = await startConcord({ dataFolder: live, config: KILLED_CONFIG });
  const db = await connect({ coordinators: [concord.address], dedupWorker: concord.address });
  await db.insert("notes", { id: 0n, body: "changed" });
  await db.messages.ingest(messagesOf(MESSAGES));
  const s3 = new S3Client({ ...concord.s3, forcePathStyle: true });
  await s3.send(new CreateBucketCommand({ Bucket: "photos" }));
  await s3.send(new PutObjectCommand({ Bucket: "photos", Key: "cat", Body: "meow" }));
  await cp(live, data, { recursive: true });
  db.close();
  s3.destroy();
  return data;
}

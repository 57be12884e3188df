// Data of a node that was killed at work: rows below a checkpoint and in journals, an object, messages.
import { join } from "node:path";
import { CreateBucketCommand, PutObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { connect } from "@concord/client";
import { startConcord } from "../index.ts";
import { ACCESS_KEY } from "./memory-node.ts";
import { ended, Processes } from "./process.ts";

export const KILLED_CONFIG = { groupCount: 1, partitions: 2 } as const;
export const MESSAGES = 20;
const ROWS = 300;
/** Time of a call on a busy machine. */
const BUSY_MS = 60_000;

export const messagesOf = (count: number): { id: string; value: string }[] =>
  Array.from({ length: count }, (_, n) => ({ id: `m${n}`, value: "hello" }));

/** Makes `root/data`; note 0 is "changed", photos/cat is "meow", messages m0 to m19 are accepted. */
export async function makeKilledNode(root: string): Promise<string> {
  const data = join(root, "data");
  {
    await using concord = await startConcord({ dataFolder: data, config: KILLED_CONFIG });
    const db = await connect({ coordinators: [concord.address], timeoutMs: BUSY_MS });
    await db.createTables(["CREATE TABLE notes (id bigint PRIMARY KEY, body text)"]);
    for (let n = 0; n < ROWS; n += 1) await db.insert("notes", { id: BigInt(n), body: `note ${n} ${"x".repeat(100)}` });
    db.close();
  }
  // A process that is killed: a copy of the folder while the node works would have files of several moments, which no crash leaves.
  const processes = new Processes();
  try {
    const { groupCount, partitions } = KILLED_CONFIG;
    const { child, address, httpAddress } = await processes.start(
      ["--data-folder", data, "--group-count", groupCount, "--partitions", partitions].map(String),
    );
    await work(address, httpAddress);
    await ended(child, "SIGKILL");
  } finally {
    processes.end();
  }
  return data;
}

async function work(address: string, httpAddress: string): Promise<void> {
  const db = await connect({ coordinators: [address], dedupWorker: address, timeoutMs: BUSY_MS });
  const endpoint = `http://${httpAddress}`;
  const s3 = new S3Client({ endpoint, region: "us-east-1", forcePathStyle: true, credentials: { ...ACCESS_KEY } });
  await db.insert("notes", { id: 0n, body: "changed" });
  await db.messages.ingest(messagesOf(MESSAGES));
  await s3.send(new CreateBucketCommand({ Bucket: "photos" }));
  await s3.send(new PutObjectCommand({ Bucket: "photos", Key: "cat", Body: "meow" }));
  db.close();
  s3.destroy();
}

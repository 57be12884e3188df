// Events of a bucket through a dedup-worker to real brokers: the worker is killed at points of its loop, what its topic holds is read without it.
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { DeleteObjectCommand, PutObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { brokers, newTopics, openOn, type Topics } from "@concord/adapter-kafka/testing";
import { freeAddress } from "@concord/adapter-node-runtime/testing";
import type { LogMessage, MessageLog } from "@concord/ports";
import { EndedEarly, eventsOf, EventPrograms, KEY, metric, putRules, type EventProgram } from "./event-programs.ts";

const BUCKET = "photos";
const ASK_AGAIN_MS = 50;
const root = await mkdtemp(join(tmpdir(), "concord-events-kafka-"));
const programs = new EventPrograms();
after(async () => {
  programs.end();
  await rm(root, { recursive: true, force: true });
});

function startWorker(topics: Topics, address: string, more: Readonly<Record<string, string>> = {}): Promise<EventProgram> {
  return programs.start("dedup-worker", {
    CONCORD_DATA_FOLDER: join(root, "worker"),
    CONCORD_LISTEN_ADDRESS: address,
    CONCORD_PARTITIONS: "2",
    CONCORD_LOG: "kafka",
    CONCORD_ID_SOURCE: "header:concord-id",
    CONCORD_KAFKA_BROKERS: JSON.stringify(brokers),
    CONCORD_KAFKA_REPLICAS_MIN: "1",
    CONCORD_KAFKA_PIPELINE: topics.input,
    CONCORD_KAFKA_INPUT_TOPIC: topics.input,
    CONCORD_KAFKA_OUTPUT_TOPIC: topics.output,
    CONCORD_KAFKA_DEAD_LETTERS_TOPIC: topics["dead-letters"],
    ...more,
  });
}

function startGateway(worker: string): Promise<EventProgram> {
  return programs.start("object-gateway", {
    CONCORD_DATA_FOLDER: join(root, "gateway"),
    CONCORD_HTTP_ADDRESS: "127.0.0.1:0",
    CONCORD_ACCESS_KEYS: JSON.stringify([KEY]),
    CONCORD_EVENT_TARGETS: JSON.stringify([{ name: "kafka", tenant: KEY.tenant, workers: [worker] }]),
  });
}

/** Committed records of the output topic, as the brokers have them. */
async function outputOf(log: MessageLog): Promise<readonly LogMessage[]> {
  const found: LogMessage[] = [];
  for (let partition = 0; partition < log.partitions; partition += 1) {
    const { start, end } = await log.bounds("output", partition);
    for (let from = start; from < end;) {
      const page = await log.read("output", partition, from, { messages: 100, bytes: 1024 * 1024 });
      found.push(...page.messages);
      from = page.next;
    }
  }
  return found;
}

const eventsIn = async (log: MessageLog): Promise<readonly string[]> =>
  eventsOf((await outputOf(log)).map(({ value }) => new TextDecoder().decode(value)));

async function untilDelivered(gateway: EventProgram, expected: number): Promise<void> {
  const answers = ["accepted", "duplicate"].map((answer) => `objects_events_delivered_total{answer="${answer}"}`);
  for (;;) {
    const counts = await Promise.all(answers.map((name) => metric(gateway.admin, name)));
    if (counts[0]! + counts[1]! >= expected) return;
    await sleep(ASK_AGAIN_MS);
  }
}

test("[OGD19] [OGD22] on Kafka: the dedup-worker is killed at points of its loop: each committed change is once on the output topic", async () => {
  const topics = await newTopics();
  const log = await openOn(topics);
  const address = await freeAddress();
  const gateway = await startGateway(address);
  const s3 = new S3Client({ endpoint: `http://${gateway.httpAddress}`, region: "us-east-1", credentials: KEY, forcePathStyle: true });
  const expected: string[] = [];
  /** Puts an object, and deletes the one before. */
  const change = async (at: number): Promise<void> => {
    await s3.send(new PutObjectCommand({ Bucket: BUCKET, Key: `k${at}`, Body: "x" }));
    expected.push(`ObjectCreated:Put k${at}`);
    if (at === 0) return;
    await s3.send(new DeleteObjectCommand({ Bucket: BUCKET, Key: `k${at - 1}` }));
    expected.push(`ObjectRemoved:Delete k${at - 1}`);
  };

  // The first one takes the test event and dies of a change; the others find what the one before left.
  for (const [at, point] of ["ingest:appended:2", "dedup:published:1", "dedup:applied:1"].entries()) {
    const started = startWorker(topics, address, { CONCORD_KILL_POINT: point });
    // A worker may deliver what waits, and die of it, before its line `serving`.
    const exited = await started.then(
      ({ child }) => ({ end: once(child, "exit") }),
      (thrown: unknown) => {
        if (at > 0 && thrown instanceof EndedEarly && thrown.signal === "SIGKILL") return { end: [null, thrown.signal] };
        throw thrown;
      },
    );
    if (at === 0) await putRules(s3, BUCKET, "kafka");
    await change(2 * at);
    assert.deepEqual(await exited.end, [null, "SIGKILL"], point);
    // Without a worker the write succeeds, and its events wait.
    await change(2 * at + 1);
  }
  await startWorker(topics, address);
  await untilDelivered(gateway, expected.length);
  assert.deepEqual(await eventsIn(log), expected.toSorted());
  // What was on the topic when its answer was lost was sent again, and told from what is new.
  assert.ok((await metric(gateway.admin, 'objects_events_delivered_total{answer="duplicate"}')) > 0);
  s3.destroy();
});

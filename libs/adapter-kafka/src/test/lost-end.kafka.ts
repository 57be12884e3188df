// A transaction that its coordinator has ended and a partition has not (KAFKA-20734): what the next session makes of it. Made for certain by
// batches that the coordinator does not know of, which a broker takes that does not verify them; and by an outage, after which a broker
// forgets the end of a transaction or does not, by what it is asked first when it is back.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { LogSession, LogTopic, MessageLog, NewMessage } from "@concord/ports";
import { silentLog } from "@concord/runtime";
import { metadataOf } from "../fence.ts";
import { KafkaFailure, type Producer } from "../kafka-wire.ts";
import { KafkajsWire } from "../kafkajs-wire.ts";
import { TRANSACTION_TIMEOUT_MS } from "../limits.ts";
import { encodeBatch } from "../record-batch.ts";
import { API, FaultySockets } from "./faulty-sockets.ts";
import { broker, brokers, kafkaAdmin, newTopics, OPEN_AGAIN_MS, openedAgain, openOn, type Topics } from "./real-kafka.ts";

/** In requests of settings. */
const BROKER_RESOURCE = 4;

function message(text: string, input: number): NewMessage {
  return {
    key: Buffer.from("k"),
    value: Buffer.from(text),
    headers: [{ name: "input", value: Buffer.from(`${input}`) }],
    timestampMs: 1_000,
  };
}

async function texts(log: MessageLog, topic: LogTopic): Promise<readonly string[]> {
  const found: string[] = [];
  for (let { start: at } = await log.bounds(topic, 0); ;) {
    const { messages, next } = await log.read(topic, 0, at, { messages: 100, bytes: 1 << 20 });
    found.push(...messages.map(({ value }) => Buffer.from(value!).toString()));
    if (next === at) return found;
    at = next;
  }
}

const page = { output: [message("o1", 1)], deadLetters: [message("d2", 2)], rerouted: [], acknowledgedInput: 3n };

interface Published {
  readonly topics: Topics;
  readonly sockets: FaultySockets;
  readonly log: MessageLog;
  readonly session: LogSession;
  /** Warnings of lost ends so far. */
  lostEnds(): number;
}

/** Three messages of the input, of which the first is published. */
async function firstPublished(): Promise<Published> {
  const sockets = new FaultySockets();
  const warned: string[] = [];
  const nothing = (): void => undefined;
  const topics = await newTopics();
  const log = await openOn(topics, {
    socketFactory: sockets.factory,
    log: { debug: nothing, info: nothing, error: nothing, warn: (text) => void warned.push(text) },
  });
  for (let at = 0; at < 3; at += 1) await log.append(0, [message(`m${at}`, at)]);
  const session = await log.open(0, "worker");
  const before = { output: [message("o0", 0)], deadLetters: [], rerouted: [], acknowledgedInput: 1n };
  assert.equal((await session.publish(before)).kind, "published");
  const lostEnds = (): number => warned.filter((text) => text.startsWith("Kafka lost the end of a transaction")).length;
  return { topics, sockets, log, session, lostEnds };
}

async function shown(log: MessageLog): Promise<readonly (readonly string[])[]> {
  return [await texts(log, "output"), await texts(log, "dead-letters")];
}

/** Whether brokers ask the coordinator if a batch is of a transaction that it knows. */
async function verifyBatches(isVerified: boolean): Promise<void> {
  const configEntries = [{ name: "transaction.partition.verification.enable", value: String(isVerified) }];
  const resources = [{ type: BROKER_RESOURCE, name: "1", configEntries }];
  await (await kafkaAdmin()).alterConfigs({ validateOnly: false, resources });
}

/** Writes a batch of the producer's that its transaction does not know of; again until the broker has the setting. */
async function writeUnknown(wire: KafkajsWire, producer: Producer, topic: string, { text, input }: Hidden): Promise<void> {
  const batch = encodeBatch([message(text, input)], { ...producer, sequence: 0, isTransactional: true }, Date.now());
  for (;;) {
    try {
      await wire.produce(topic, 0, batch, producer.transactionalId);
      return;
    } catch (thrown) {
      assert.ok(thrown instanceof KafkaFailure && thrown.type === "INVALID_TXN_STATE", String(thrown));
      await sleep(OPEN_AGAIN_MS);
    }
  }
}

interface Hidden {
  readonly text: string;
  readonly input: number;
}

/** Runs it with a producer that comes after the session's, on a broker that verifies nothing. */
async function unverified(topics: Topics, write: (wire: KafkajsWire, producer: Producer) => Promise<void>): Promise<void> {
  const wire = new KafkajsWire({ brokers, clientId: "test", topics: Object.values(topics), log: silentLog });
  try {
    await verifyBatches(false);
    await write(wire, await wire.initProducer(`${topics.input}-pipeline/0`));
  } finally {
    await verifyBatches(true);
    await wire.close();
  }
}

test("[DDD4] a transaction has no end in its partitions, and its input is processed again: the next session aborts it, nothing is lost or twice", async () => {
  const { topics, log, lostEnds } = await firstPublished();
  await unverified(topics, async (wire, producer) => {
    await writeUnknown(wire, producer, topics.output, { text: "o1", input: 1 });
    await writeUnknown(wire, producer, topics["dead-letters"], { text: "d2", input: 2 });
  });
  const next = await log.open(0, "worker");
  assert.deepEqual([next.acknowledgedInput, lostEnds()], [1n, 2]);
  assert.deepEqual(await shown(log), [["o0"], []], "nothing of it was shown");
  assert.equal((await next.publish(page)).kind, "published");
  assert.deepEqual(await shown(log), [["o0", "o1"], ["d2"]]);
});

test("[DDD4] a transaction was committed and has no end in one partition: the next session commits it there", async () => {
  const { topics, log, lostEnds } = await firstPublished();
  await unverified(topics, async (wire, producer) => {
    const [input, output] = [await wire.partitions(topics.input), await wire.partitions(topics.output)];
    const record = { partitions: input.partitions, inputId: input.id, outputId: output.id };
    const committed = { offset: 3n, metadata: metadataOf("worker", false, record, undefined) };
    await wire.addPartitions(producer, [{ topic: topics.output, partition: 0 }]);
    await writeUnknown(wire, producer, topics.output, { text: "o2", input: 2 });
    await writeUnknown(wire, producer, topics["dead-letters"], { text: "d1", input: 1 });
    await wire.addOffset(producer, `${topics.input}-pipeline`, { topic: topics.input, partition: 0 }, committed);
    await wire.endTransaction(producer, "commit");
  });
  const next = await log.open(0, "worker");
  assert.deepEqual([next.acknowledgedInput, lostEnds()], [3n, 1]);
  assert.deepEqual(await shown(log), [["o0", "o2"], ["d1"]]);
  assert.equal((await next.publish({ output: [], deadLetters: [], rerouted: [], acknowledgedInput: 3n })).kind, "published");
});

test("[DDD4] a broker is away for longer than a transaction may last: whether or not it forgets its end, nothing is lost or twice", async () => {
  const { sockets, log, session, lostEnds } = await firstPublished();
  sockets.failNext(API.EndTxn, "request-lost");
  assert.equal((await session.publish(page)).kind, "unknown");
  await broker("kill");
  await sleep(TRANSACTION_TIMEOUT_MS + 1_000);
  // The sooner it asks, the more likely is it that no partition has a leader yet.
  const [next] = await Promise.all([openedAgain(log), broker("start")]);
  console.log(`Kafka lost the end of the transaction in ${lostEnds()} partitions`);
  assert.equal(next.acknowledgedInput, 1n);
  assert.deepEqual(await shown(log), [["o0"], []], "nothing of it was shown");
  assert.equal((await next.publish(page)).kind, "published");
  assert.deepEqual(await shown(log), [["o0", "o1"], ["d2"]]);
});

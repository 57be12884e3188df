// Topics of a test's own on the brokers that ENGINE_KAFKA names.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { resolve } from "node:path";
import { after } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { Kafka, logLevel, type Admin } from "kafkajs";
import type { LogSession, MessageLog, NewMessage } from "@concord/ports";
import { ConcordError, silentLog, type Clock } from "@concord/runtime";
import { openKafkaLog, type KafkaLogOptions } from "../index.ts";

export const brokers = (process.env["ENGINE_KAFKA"] ?? "").split(",");

const ENGINES_COMMAND = resolve(import.meta.dirname, "../../../../tools/engines/main.ts");

/** One command of the engines on the first broker; a started one is ready. */
export async function broker(command: "kill" | "start" | "pause" | "resume"): Promise<void> {
  const args = [ENGINES_COMMAND, command, "kafka", "--node", "1", "--data", process.env["ENGINE_KAFKA_FOLDER"] ?? ""];
  await promisify(execFile)(process.execPath, args);
}

export const clock: Clock = {
  nowMs: () => Date.now(),
  nowUs: () => BigInt(Date.now()) * 1000n,
  monotonicMs: () => performance.now(),
  setTimer: (delayMs, action) => {
    const timer = setTimeout(action, delayMs);
    return { cancel: () => clearTimeout(timer) };
  },
  defer: (action) => void setImmediate(action),
};

/** What the pipeline's own header says is a text here. */
export const inputOffsetOf = ({ headers }: NewMessage): bigint | undefined => {
  const header = headers.find(({ name }) => name === "input");
  return header === undefined ? undefined : BigInt(Buffer.from(header.value!).toString());
};

let admin: Promise<Admin> | undefined;
const opened: MessageLog[] = [];

after(async () => {
  for (const log of opened) await log.close();
  await (await admin)?.disconnect();
});

export function kafkaAdmin(): Promise<Admin> {
  const connect = async (): Promise<Admin> => {
    const made = new Kafka({ brokers, clientId: "test", logLevel: logLevel.NOTHING }).admin();
    await made.connect();
    return made;
  };
  return (admin ??= connect());
}

export type Topics = KafkaLogOptions["topics"];
export type TopicSettings = Readonly<Record<string, string>>;

/** Three topics of two partitions that nothing else uses. */
export async function newTopics(settings: TopicSettings = {}): Promise<Topics> {
  const name = `test-${randomBytes(6).toString("hex")}`;
  const topics = { input: `${name}-in`, output: `${name}-out`, "dead-letters": `${name}-dead` };
  const configEntries = Object.entries({ "retention.ms": "-1", "message.timestamp.type": "CreateTime", ...settings });
  const larger = configEntries.some(([key]) => key === "max.message.bytes") ? [] : [["max.message.bytes", "1100000"]];
  await (
    await kafkaAdmin()
  ).createTopics({
    // kafkajs waits for a leader, but fails on a broker that does not know the topic yet.
    waitForLeaders: false,
    topics: Object.entries(topics).map(([topic, each]) => ({
      topic: each,
      numPartitions: 2,
      replicationFactor: 1,
      configEntries: [...configEntries, ...(topic === "input" ? [] : larger)].map(([key, value]) => ({ name: key!, value: value! })),
    })),
  });
  for (const topic of Object.values(topics)) await served(topic);
  return topics;
}

/** A new topic of two partitions has a leader in the metadata before the broker knows that it leads. */
export async function served(topic: string): Promise<void> {
  for (;;) {
    const offsets = await (await kafkaAdmin()).fetchTopicOffsets(topic).catch(() => []);
    if (offsets.length === 2) return;
    await sleep(OPEN_AGAIN_MS);
  }
}

export function optionsFor(topics: Topics, more: Partial<KafkaLogOptions> = {}): KafkaLogOptions {
  return {
    brokers,
    clientId: "test",
    topics,
    pipeline: `${topics.input}-pipeline`,
    partitions: 2,
    mode: "transactional",
    replicasMin: 1,
    outputKeptMs: undefined,
    clock,
    log: silentLog,
    inputOffsetOf,
    ...more,
  };
}

export async function openOn(topics: Topics, more: Partial<KafkaLogOptions> = {}): Promise<MessageLog> {
  const log = await openKafkaLog(optionsFor(topics, more));
  opened.push(log);
  return log;
}

export const OPEN_AGAIN_MS = 20;

/** Of partition 0, as a worker does: until there is a broker, within the time of the file. */
export async function openedAgain(log: MessageLog): Promise<LogSession> {
  for (;;) {
    try {
      return await log.open(0, "worker");
    } catch (thrown) {
      assert.ok(thrown instanceof ConcordError && thrown.code === "REPLICAS_UNAVAILABLE", String(thrown));
      await sleep(OPEN_AGAIN_MS);
    }
  }
}

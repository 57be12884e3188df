// A broker that comes back without the end of a log, as after a power cut of all replicas or an unclean election: what a reader of it makes of that.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { globSync, statSync, truncateSync } from "node:fs";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import type { LogPage, LogSession, MessageLog, NewMessage } from "@concord/ports";
import { ConcordError, silentLog } from "@concord/runtime";
import type { KafkaMode } from "../context.ts";
import { kafkaAdmin, newTopics, OPEN_AGAIN_MS, openOn, optionsFor, type Topics } from "./real-kafka.ts";

const ENGINES_COMMAND = resolve(import.meta.dirname, "../../../../tools/engines/main.ts");
const FOLDER = process.env["ENGINE_KAFKA_FOLDER"] ?? "";
const LIMITS = { messages: 100, bytes: 1 << 20 };

async function broker(command: "kill" | "start"): Promise<void> {
  await promisify(execFile)(process.execPath, [ENGINES_COMMAND, command, "kafka", "--node", "1", "--data", FOLDER]);
}

const message = (text: string): NewMessage => ({ key: Buffer.from("k"), value: Buffer.from(text), headers: [], timestampMs: 1_000 });

/** Failures after which nothing is in the topic, and those after which that is not known. */
const NOTHING_DONE = ["REPLICAS_UNAVAILABLE"];
const BROKER_AWAY = [...NOTHING_DONE, "CONNECTION_LOST"];

/** As a worker does it: until there is a broker, within the time of the file. */
async function untilReached<Answer>(request: () => Promise<Answer>, repeated = BROKER_AWAY): Promise<Answer> {
  for (;;) {
    try {
      return await request();
    } catch (thrown) {
      if (!(thrown instanceof ConcordError && repeated.includes(thrown.code))) throw thrown;
      await sleep(OPEN_AGAIN_MS);
    }
  }
}

const read = (log: MessageLog, from: bigint): Promise<LogPage> => untilReached(() => log.read("input", 0, from, LIMITS));
const opened = (log: MessageLog): Promise<LogSession> => untilReached(() => log.open(0, "worker"));
const texts = ({ messages }: LogPage): readonly string[] => messages.map(({ value }) => Buffer.from(value!).toString());

interface Input {
  readonly log: MessageLog;
  readonly topics: Topics;
  /** The file of partition 0, and its length before the last two messages. */
  readonly file: string;
  readonly length: number;
}

/** Five messages, of which all are read. */
async function fiveRead(): Promise<Input> {
  const topics = await newTopics();
  const log = await openOn(topics);
  for (const text of ["a", "b", "c"]) await untilReached(() => log.append(0, [message(text)]), NOTHING_DONE);
  const files = globSync(join(FOLDER, "**", `${topics.input}-0`, "*.log"));
  assert.equal(files.length, 1, files.join());
  const { size: length } = statSync(files[0]!);
  for (const text of ["d", "e"]) await untilReached(() => log.append(0, [message(text)]), NOTHING_DONE);
  const page = await read(log, 0n);
  assert.deepEqual([texts(page), page.next], [["a", "b", "c", "d", "e"], 5n]);
  return { log, topics, file: files[0]!, length };
}

test("a broker is killed and comes back with all of its log: reading goes on", async () => {
  const { log } = await fiveRead();
  await broker("kill");
  await broker("start");
  assert.deepEqual(texts(await read(log, 5n)), []);
  await untilReached(() => log.append(0, [message("f")]));
  assert.deepEqual(texts(await read(log, 5n)).slice(0, 1), ["f"]);
});

test("[DDD5] a broker comes back without what was read, and as much is written again: the reader stops, nothing is passed over in silence", async () => {
  const { log, file, length } = await fiveRead();
  await broker("kill");
  truncateSync(file, length);
  await broker("start");
  for (const text of ["new d", "new e", "f"]) await untilReached(() => log.append(0, [message(text)]));
  await assert.rejects(read(log, 5n), (error: unknown) => {
    assert.ok(error instanceof ConcordError && error.code === "PARTITION_STOPPED", String(error));
    assert.match(error.message, /lost messages that were read from it/);
    return true;
  });
});

/** A worker processed all five and ended; the broker comes back without the last two and takes three others. */
async function lostWhileStopped(mode: KafkaMode): Promise<Topics> {
  const { log: first, topics, file, length } = await fiveRead();
  await first.close();
  const log = await openOn(topics, { mode });
  const session = await opened(log);
  await read(log, session.acknowledgedInput);
  const output = [0, 1, 2, 3, 4].map((at) => ({ ...message(`${at}`), headers: [{ name: "input", value: Buffer.from(`${at}`) }] }));
  const outcome = await session.publish({ output, deadLetters: [], rerouted: [], acknowledgedInput: 5n });
  assert.equal(outcome.kind, "published");
  await log.close();
  await broker("kill");
  truncateSync(file, length);
  await broker("start");
  const writer = await openOn(topics);
  for (const text of ["new d", "new e", "f"]) await untilReached(() => writer.append(0, [message(text)]));
  return topics;
}

for (const mode of ["transactional", "single-owner"] as const) {
  test(`[DDD5] ${mode}: the input lost what was processed while no worker ran: the next one stops, until the offset is committed by Kafka's own means`, async () => {
    const topics = await lostWhileStopped(mode);
    const lines: string[] = [];
    const log = await openOn(topics, { mode, log: { ...silentLog, info: (text) => void lines.push(text) } });
    for (const _ of ["first", "again"])
      await assert.rejects(opened(log), { code: "PARTITION_STOPPED", message: /lost messages that were read from it/ });
    assert.deepEqual(lines, []);
    const { pipeline } = optionsFor(topics);
    await (await kafkaAdmin()).setOffsets({ groupId: pipeline, topic: topics.input, partitions: [{ partition: 0, offset: "5" }] });
    const session = await opened(log);
    assert.equal(session.acknowledgedInput, 5n);
    assert.equal(lines.length, 1);
    assert.deepEqual(texts(await read(log, 5n)), ["f"]);
  });
}

// A broker that is away for longer than a transaction may last completes it at its start, while no partition has a leader, and forgets to
// end it in them (KAFKA-20734): what the next session makes of it.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { resolve } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import type { LogSession, LogTopic, MessageLog, NewMessage } from "@concord/ports";
import { TRANSACTION_TIMEOUT_MS } from "../limits.ts";
import { API, FaultySockets } from "./faulty-sockets.ts";
import { newTopics, openOn } from "./real-kafka.ts";

const ENGINES_COMMAND = resolve(import.meta.dirname, "../../../../tools/engines/main.ts");

/** Whether the broker forgets depends on what it is asked first when it is back. */
const ROUNDS_MAX = 4;
const OPEN_AGAIN_MS = 20;

async function broker(command: "kill" | "start"): Promise<void> {
  const args = [ENGINES_COMMAND, command, "kafka", "--node", "1", "--data", process.env["ENGINE_KAFKA_FOLDER"] ?? ""];
  await promisify(execFile)(process.execPath, args);
}

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
    found.push(...messages.map(({ value }) => Buffer.from(value).toString()));
    if (next === at) return found;
    at = next;
  }
}

/** As a worker does: until there is a broker. */
async function openedAgain(log: MessageLog): Promise<LogSession> {
  for (;;) {
    try {
      return await log.open(0, "worker");
    } catch {
      await sleep(OPEN_AGAIN_MS);
    }
  }
}

/** One outage; answers in how many partitions the end was lost. */
async function outage(): Promise<number> {
  const sockets = new FaultySockets();
  const warned: string[] = [];
  const nothing = (): void => undefined;
  const log = await openOn(await newTopics(), {
    socketFactory: sockets.factory,
    log: { debug: nothing, info: nothing, error: nothing, warn: (text) => void warned.push(text) },
  });
  for (let at = 0; at < 3; at += 1) await log.append(0, [message(`m${at}`, at)]);
  const first = await log.open(0, "worker");
  const before = { output: [message("o0", 0)], deadLetters: [], rerouted: [], acknowledgedInput: 1n };
  assert.equal((await first.publish(before)).kind, "published");
  const page = { output: [message("o1", 1)], deadLetters: [message("d2", 2)], rerouted: [], acknowledgedInput: 3n };
  sockets.failNext(API.EndTxn, "request-lost");
  assert.equal((await first.publish(page)).kind, "unknown");
  await broker("kill");
  await sleep(TRANSACTION_TIMEOUT_MS + 1_000);
  // The sooner it asks, the more likely is it that no partition has a leader yet.
  const [second] = await Promise.all([openedAgain(log), broker("start")]);
  assert.equal(second.acknowledgedInput, 1n);
  assert.deepEqual([await texts(log, "output"), await texts(log, "dead-letters")], [["o0"], []], "nothing of it was shown");
  assert.equal((await second.publish(page)).kind, "published");
  assert.deepEqual([await texts(log, "output"), await texts(log, "dead-letters")], [["o0", "o1"], ["d2"]]);
  return warned.filter((text) => text.startsWith("Kafka lost the end of a transaction")).length;
}

test("[DDD4] a broker forgot to end a transaction in its partitions: the next session ends it, and nothing is lost or twice", async () => {
  let lost = 0;
  for (let round = 1; lost === 0; round += 1) {
    assert.ok(round <= ROUNDS_MAX, "the broker never forgot: of its version 4.3.1 it is known, of a newer one say so here");
    lost = await outage();
    console.log(`outage ${round}: Kafka lost the end of the transaction in ${lost} partitions`);
  }
});

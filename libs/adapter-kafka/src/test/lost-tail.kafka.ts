// A broker that comes back without the end of a log, as after a power cut of all replicas or an unclean election: what a reader of it makes of that.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { globSync, statSync, truncateSync } from "node:fs";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import type { LogPage, MessageLog, NewMessage } from "@concord/ports";
import { ConcordError } from "@concord/runtime";
import { newTopics, OPEN_AGAIN_MS, openOn } from "./real-kafka.ts";

const ENGINES_COMMAND = resolve(import.meta.dirname, "../../../../tools/engines/main.ts");
const FOLDER = process.env["ENGINE_KAFKA_FOLDER"] ?? "";
const LIMITS = { messages: 100, bytes: 1 << 20 };

async function broker(command: "kill" | "start"): Promise<void> {
  await promisify(execFile)(process.execPath, [ENGINES_COMMAND, command, "kafka", "--node", "1", "--data", FOLDER]);
}

const message = (text: string): NewMessage => ({ key: Buffer.from("k"), value: Buffer.from(text), headers: [], timestampMs: 1_000 });

/** As a worker does it: until there is a broker, within the time of the file. */
async function untilReached<Answer>(request: () => Promise<Answer>): Promise<Answer> {
  for (;;) {
    try {
      return await request();
    } catch (thrown) {
      const isAway = thrown instanceof ConcordError && ["REPLICAS_UNAVAILABLE", "CONNECTION_LOST"].includes(thrown.code);
      if (!isAway) throw thrown;
      await sleep(OPEN_AGAIN_MS);
    }
  }
}

const read = (log: MessageLog, from: bigint): Promise<LogPage> => untilReached(() => log.read("input", 0, from, LIMITS));
const texts = ({ messages }: LogPage): readonly string[] => messages.map(({ value }) => Buffer.from(value!).toString());

interface Input {
  readonly log: MessageLog;
  /** The file of partition 0, and its length before the last two messages. */
  readonly file: string;
  readonly length: number;
}

/** Five messages, of which all are read. */
async function fiveRead(): Promise<Input> {
  const topics = await newTopics();
  const log = await openOn(topics);
  for (const text of ["a", "b", "c"]) await log.append(0, [message(text)]);
  const files = globSync(join(FOLDER, "**", `${topics.input}-0`, "*.log"));
  assert.equal(files.length, 1, files.join());
  const { size: length } = statSync(files[0]!);
  for (const text of ["d", "e"]) await log.append(0, [message(text)]);
  const page = await read(log, 0n);
  assert.deepEqual([texts(page), page.next], [["a", "b", "c", "d", "e"], 5n]);
  return { log, file: files[0]!, length };
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

// Dead letters of a foreign producer's messages, sent again by the real command on real brokers once their cause is gone.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, test } from "node:test";
import { promisify } from "node:util";
import { newTopics } from "@concord/adapter-kafka/testing";
import { argumentsOf, byJson, consumed, foreign, ids, jsonOf, kill, processed, until, values } from "./foreign.ts";
import { WorkerProcesses } from "./worker-process.ts";

const workers = await WorkerProcesses.create();
const folder = await mkdtemp(join(tmpdir(), "concord-redrive-"));
after(async () => {
  await workers[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

const PER_PAGE = 10;

interface Ran {
  readonly code: number;
  readonly stdout: string;
}

const argsOf = (words: readonly string[], options: readonly string[]): string[] => [
  join(import.meta.dirname, "../main.ts"),
  "dead-letters",
  ...words,
  ...options,
];

/** Runs to its end. */
async function deadLetters(words: readonly string[], options: readonly string[]): Promise<Ran> {
  return await promisify(execFile)(process.execPath, argsOf(words, options)).then(
    ({ stdout }) => ({ code: 0, stdout }),
    ({ code, stdout, stderr }: Ran & { readonly stderr: string }) => ({ code, stdout: stdout + stderr }),
  );
}

/** Killed when it has reported its first page: the rest is not sent. */
async function redriveUntilKilled(file: string, options: readonly string[]): Promise<void> {
  const args = argsOf(["redrive", file, "--per-second", String(PER_PAGE)], options);
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  const exited = once(child, "exit");
  const [line] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
  child.kill("SIGKILL");
  assert.deepEqual([await exited, /partition 0: \d+ sent, up to/.test(line)], [[null, "SIGKILL"], true], line);
}

const lastLine = ({ stdout }: Ran): string | undefined => stdout.trim().split("\n").at(-1);
const deadCount = (partitions: Parameters<Parameters<typeof until>[1]>[0]): number =>
  partitions.reduce((sum, { deadLettered }) => sum + Number(deadLettered), 0);

/** Bytes of a value that fits the input with a short key, and no more when it is sent again with the headers of a redrive. */
const JUST_FITS = 1_048_470;
/** Dead letters of more than 3 MiB are for other programs: no call to a worker carries them. */
const BEYOND_ANY_CALL = 5_000_000;
const FORMS = [
  ["no id", (id: string) => JSON.stringify({ user: id })],
  ["bad JSON", (id: string) => `{"messageId" "${id}"}`],
  ["an id of 300 bytes", (id: string) => jsonOf(id.padEnd(300, "x"))],
] as const;
const WRONG = ["--id-source", "json:messageId", "--missing-id", "dead-letter"];

for (const [cure, settings, hasLarge] of [
  ["the id is found in the key", ["--id-source", "key", "--missing-id", "dead-letter"], true],
  ["messages without an id pass", ["--id-source", "json:messageId", "--missing-id", "pass"], false],
] as const) {
  test(`[DD1] [DDD8] redrive on Kafka: ${cure}: killed in the middle and repeated from the start, each dead letter goes downstream once`, async () => {
    const topics = await newTopics();
    const options = argumentsOf(topics, WRONG);
    const dead = FORMS.flatMap(([, form], at) => ids(20, `dead${at}`).map((id) => ({ key: id, value: form(id) })));
    const good = ids(10, "good").map(byJson);
    const large = hasLarge ? [{ key: "large", value: '{"user":"large"}', padding: JUST_FITS - 16 }] : [];
    const huge = hasLarge ? [{ key: "huge", value: "{}", padding: BEYOND_ANY_CALL }] : [];
    const config = { "message.max.bytes": 8_000_000, "compression.type": "gzip" };
    await foreign("produce", { topic: topics.input, messages: [...dead, ...good, ...large, ...huge], config });
    const total = dead.length + large.length + huge.length;
    const wrong = await workers.start({ folder: topics.input, args: options });
    await until(wrong.address, (partitions) => deadCount(partitions) === total && processed(good.length)(partitions));
    const listed = await deadLetters(["list"], ["--listen-address", wrong.address]);
    for (const reason of ["no text at messageId", "not JSON", "the id has more than 256 bytes"])
      assert.match(listed.stdout, RegExp(reason));
    assert.equal(/cannot be shown: the message at offset \d+ has 5\d{6} bytes/.test(listed.stdout), hasLarge, listed.stdout);
    await kill(wrong, "SIGTERM");

    const right = await workers.start({ folder: topics.input, args: argumentsOf(topics, settings) });
    const at = [...options, "--listen-address", right.address];
    await redriveUntilKilled(join(folder, `${topics.input}-killed`), at);
    // Another file: as if it had died before it kept a position.
    const repeated = await deadLetters(["redrive", join(folder, topics.input), "--per-second", "1000"], at);
    const [, accepted, duplicates, rest] = /(\d+) accepted, (\d+) duplicates, (.*)$/.exec(lastLine(repeated)!)!;
    assert.deepEqual(
      [Number(accepted) + Number(duplicates), Number(duplicates) >= PER_PAGE, rest, repeated.code],
      [dead.length, true, `0 dead letters again, ${2 * large.length} not sent`, large.length],
      repeated.stdout,
    );
    await kill(right, "SIGTERM");
    const output = async (): Promise<readonly string[]> => (await values(topics.output)).map((value) => value.trimEnd()).toSorted();
    const expected = [...dead, ...good].map(({ value }) => value!);
    assert.deepEqual(await output(), expected.toSorted());
    if (!hasLarge) return;

    assert.match(repeated.stdout, /cannot be sent: an append has at most \d+ bytes \(max\.message\.bytes of /);
    for (const topic of Object.values(topics)) {
      const bytes = topic === topics.input ? "1200000" : "1300000";
      await foreign("admin", { alter: topic, settings: { "max.message.bytes": bytes } });
    }
    const larger = await workers.start({ folder: `${topics.input}-new`, args: argumentsOf(topics, settings) });
    const atLast = [...options, "--listen-address", larger.address];
    // Messages up to the positions in the same file are not sent again: a later redrive goes on from there.
    const later = await deadLetters(["redrive", join(folder, topics.input)], atLast);
    assert.match(later.stdout, /^0 accepted, 0 duplicates, 0 dead letters again, 0 not sent$/m);
    const all = await deadLetters(["redrive", join(folder, `${topics.input}-all`), "--per-second", "1000"], atLast);
    assert.equal(lastLine(all), `1 accepted, ${dead.length} duplicates, 0 dead letters again, 1 not sent`, all.stdout);
    await kill(larger, "SIGTERM");
    assert.deepEqual(await output(), [...expected, large[0]!.value].toSorted());
    assert.equal((await consumed(topics["dead-letters"])).length, total, "dead letters stay as the record of what was wrong");
  });
}

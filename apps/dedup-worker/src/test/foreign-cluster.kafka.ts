// The worker beside programs that are not ours: producers, consumers and admin calls by librdkafka (PyPI's confluent-kafka), without the worker's gRPC and headers.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { brokers, newTopics, type Topics } from "@concord/adapter-kafka/testing";
import { WindowService } from "@concord/protos-dedup";
import { callUnary } from "@concord/rpc";
import { transport, WorkerProcesses, type Started } from "./worker-process.ts";

const PROGRAM = join(import.meta.dirname, "foreign_client.py");
const REQUIREMENTS = join(import.meta.dirname, "requirements.txt");
const CACHE = join(import.meta.dirname, "../../../../node_modules/.cache/concord-clients");
const STATE_POLL_MS = 100;
const run = promisify(execFile);

/** Where the pinned packages are; installed once for each Python. */
async function packages(): Promise<string> {
  const { stdout: version } = await run("python3", ["-c", "import sys; print(sys.implementation.cache_tag, sys.platform)"]);
  const key = createHash("sha256").update(version).update(readFileSync(REQUIREMENTS)).digest("hex").slice(0, 16);
  const folder = join(CACHE, `librdkafka-${key}`);
  if (existsSync(folder)) return folder;
  mkdirSync(CACHE, { recursive: true });
  const partial = mkdtempSync(join(CACHE, "installing-"));
  try {
    await run("python3", ["-m", "pip", "install", "--quiet", "--only-binary=:all:", "--target", partial, "-r", REQUIREMENTS]);
    if (!existsSync(folder)) renameSync(partial, folder);
  } finally {
    rmSync(partial, { recursive: true, force: true });
  }
  return folder;
}

const env = { ...process.env, PYTHONPATH: await packages(), PYTHONDONTWRITEBYTECODE: "1" };
const workers = await WorkerProcesses.create();
after(() => workers[Symbol.asyncDispose]());

interface ForeignMessage {
  readonly key?: string | null;
  readonly value: string | null;
  readonly headers?: readonly (readonly [string, string | null])[];
}

const argsOf = (command: string, asked: object): string[] => [PROGRAM, brokers.join(","), command, JSON.stringify(asked)];

async function foreign(command: string, asked: object): Promise<string> {
  return (await run("python3", argsOf(command, asked), { env, maxBuffer: 1 << 26 })).stdout;
}

async function consumed(topic: string): Promise<ForeignMessage[]> {
  const lines = (await foreign("consume", { topic })).split("\n").filter((line) => line !== "");
  return lines.map((line) => JSON.parse(line) as ForeignMessage);
}

const values = async (topic: string): Promise<string[]> => (await consumed(topic)).map(({ value }) => String(value)).toSorted();

function argumentsOf(topics: Topics, more: readonly string[]): string[] {
  const names = [
    "--kafka-input-topic",
    topics.input,
    "--kafka-output-topic",
    topics.output,
    "--kafka-dead-letters-topic",
    topics["dead-letters"],
  ];
  return [
    "--log",
    "kafka",
    "--kafka-brokers",
    brokers.join(","),
    "--kafka-replicas-min",
    "1",
    "--kafka-pipeline",
    topics.input,
    ...names,
    ...more,
  ];
}

const JSON_IDS = ["--id-source", "json:messageId"];
const start = (topics: Topics, folder: string, more: readonly string[] = JSON_IDS): Promise<Started> =>
  workers.start({ folder: `${topics.input}-${folder}`, args: argumentsOf(topics, more) });

type Partition = Awaited<ReturnType<typeof statistics>>[number];

async function statistics(address: string) {
  const channel = transport.connect(address);
  try {
    return (await callUnary(channel, WindowService.methods.GetStatistics, {}, { timeoutMs: 30_000 })).partitions;
  } finally {
    channel.close();
  }
}

/** Until the partitions are as wanted; the test's own limit of time ends it. */
async function until(address: string, wanted: (partitions: readonly Partition[]) => boolean): Promise<readonly Partition[]> {
  for (;;) {
    const partitions = await statistics(address);
    if (wanted(partitions)) return partitions;
    await sleep(STATE_POLL_MS);
  }
}

const processed =
  (count: number) =>
  (partitions: readonly Partition[]): boolean =>
    partitions.reduce((sum, { accepted }) => sum + Number(accepted), 0) >= count;

async function kill(worker: Started, signal: "SIGKILL" | "SIGTERM" = "SIGKILL"): Promise<void> {
  const exited = once(worker.child, "exit");
  worker.child.kill(signal);
  await exited;
}

const ids = (count: number, name: string): string[] => Array.from({ length: count }, (_, at) => `${name}-${String(at).padStart(4, "0")}`);
const jsonOf = (id: string): string => JSON.stringify({ messageId: id });
const byJson = (id: string): ForeignMessage => ({ key: `user of ${id}`, value: jsonOf(id) });

for (const [idSource, message] of [
  ["json:messageId", byJson],
  ["key", (id: string) => ({ key: id, value: jsonOf(id) })],
  ["header:trace", (id: string) => ({ value: jsonOf(id), headers: [["trace", id]] })],
] as const satisfies readonly (readonly [string, (id: string) => ForeignMessage])[]) {
  test(`[DD1] [DDD8] foreign producer: ids by ${idSource}, each message three times, the worker killed between: each once, no dead letter`, async () => {
    const topics = await newTopics();
    const source = ["--id-source", idSource];
    const sent = ids(300, "m");
    const batch = { topic: topics.input, messages: sent.map(message) };
    await foreign("produce", batch);
    const first = await start(topics, "data", source);
    const again = foreign("produce", batch);
    await until(first.address, processed(1));
    await kill(first);
    await again;
    const second = await start(topics, "other", source);
    await foreign("produce", batch);
    await until(second.address, (partitions) => partitions.every(({ lag }) => lag <= 2n));
    await kill(second, "SIGTERM");
    assert.deepEqual(await values(topics.output), sent.map(jsonOf));
    assert.deepEqual(await values(topics["dead-letters"]), []);
  });
}

test("[DD1] foreign producer: tombstones, keys and headers that are null or empty: consumers get each once, as it was", async () => {
  const topics = await newTopics();
  const forms = [null, "", "x"].flatMap((key) =>
    [null, "", "y"].flatMap((value) => [null, "", "z"].map((header) => ({ key, value, header }))),
  );
  const sent = forms.map(({ key, value, header }, at): ForeignMessage => ({
    key,
    value,
    headers: [
      ["h", header],
      ["id", `${at}`],
    ],
  }));
  for (const _ of [1, 2]) await foreign("produce", { topic: topics.input, messages: sent });
  const worker = await start(topics, "data", ["--id-source", "header:id"]);
  await until(worker.address, processed(sent.length));
  await kill(worker, "SIGTERM");
  const came = await consumed(topics.output);
  const number = ({ headers }: ForeignMessage): number => Number(headers![1]![1]);
  assert.deepEqual(
    came.toSorted((left, right) => number(left) - number(right)),
    sent,
  );
});

test("[DDD3] foreign admin: partitions are added: a worker with the new number and a new data folder is refused, no known id passes again", async () => {
  const topics = await newTopics();
  const sent = ids(200, "grown");
  const batch = { topic: topics.input, messages: sent.map(byJson) };
  await foreign("produce", batch);
  const worker = await start(topics, "data");
  await until(worker.address, processed(sent.length));
  await kill(worker, "SIGTERM");
  for (const topic of Object.values(topics)) await foreign("admin", { grow: topic, partitions: 4 });
  await foreign("produce", batch);
  const refused = start(topics, "new", [...JSON_IDS, "--partitions", "4"]);
  await assert.rejects(refused, /was begun with 2 partitions, the configuration says 4/);
  assert.deepEqual(await values(topics.output), sent.map(jsonOf));
});

test("[DDD5] foreign admin: the input is made anew while the worker is frozen: its partitions stop, no message of the new topic is passed over", async () => {
  const topics = await newTopics();
  await foreign("produce", { topic: topics.input, messages: ids(200, "old").map(byJson) });
  const worker = await start(topics, "data");
  await until(worker.address, processed(200));
  worker.child.kill("SIGSTOP");
  await foreign("admin", { delete: topics.input });
  await foreign("admin", { create: topics.input, partitions: 2 });
  const fresh = ids(1_000, "new");
  await foreign("produce", { topic: topics.input, messages: fresh.map(byJson) });
  worker.child.kill("SIGCONT");
  const stopped = await until(worker.address, (partitions) => partitions.every(({ state }) => state.endsWith("STOPPED")));
  assert.match(
    JSON.stringify(stopped, (_, value: unknown) => (typeof value === "bigint" ? String(value) : value)),
    /deleted and made anew/,
  );
  await kill(worker);
  assert.deepEqual(await values(topics.output), ids(200, "old").map(jsonOf));
  // The advice of the reason: a new pipeline with a new output has all of the new topic.
  const next = { ...(await newTopics()), input: topics.input };
  const renamed = ["--kafka-pipeline", `${topics.input}-2`];
  const begun = await start(next, "next", [...JSON_IDS, ...renamed]);
  await until(begun.address, processed(fresh.length));
  await kill(begun, "SIGTERM");
  assert.deepEqual(await values(next.output), fresh.map(jsonOf));
});

test("[DD4] foreign producer: a transaction stays open before 100 messages: the lag counts them; once it is aborted all are delivered", async () => {
  const topics = await newTopics();
  const worker = await start(topics, "data");
  const asked = { topic: topics.input, id: topics.input, messages: ids(20, "open").map(byJson) };
  const open = spawn("python3", argsOf("transaction", asked), { env, stdio: ["pipe", "pipe", "inherit"] });
  const exited = once(open, "exit");
  await once(createInterface({ input: open.stdout }), "line");
  const sent = ids(100, "behind");
  await foreign("produce", { topic: topics.input, messages: sent.map(byJson) });
  const lags = (await statistics(worker.address)).map(({ lag }) => Number(lag));
  assert.ok(lags.every((lag) => lag > 0) && lags[0]! + lags[1]! >= 120, `lags ${lags.join(", ")}`);
  open.stdin.end("\n");
  assert.deepEqual(await exited, [0, null]);
  await until(worker.address, processed(sent.length));
  await kill(worker, "SIGTERM");
  assert.deepEqual(await values(topics.output), sent.map(jsonOf));
});

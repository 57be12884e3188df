// The client's known hazards on real brokers (DDD5): each guard with the fault it is for.
import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import { test } from "node:test";
import type { ISocketFactory } from "kafkajs";
import type { LogMessage, MessageLog, NewMessage, Publication } from "@concord/ports";
import { API, FaultySockets, type SocketFault } from "./faulty-sockets.ts";
import { brokers, kafkaAdmin, newTopics, openedAgain, openOn, optionsFor } from "./real-kafka.ts";
import { silentLog } from "@concord/runtime";
import { KafkajsWire } from "../kafkajs-wire.ts";
import { makeTopics, openKafkaLog } from "../index.ts";

const utf8 = (text: string): Uint8Array => Buffer.from(text);
const ALL = { messages: 100_000, bytes: 1 << 26 };

function message(text: string, input?: bigint, timestampMs = 1_000): NewMessage {
  const headers = input === undefined ? [] : [{ name: "input", value: utf8(String(input)) }];
  return { key: utf8("k"), value: utf8(text), headers, timestampMs };
}

function publication(change: Partial<Publication>): Publication {
  return { output: [], deadLetters: [], rerouted: [], acknowledgedInput: 0n, ...change };
}

async function all(log: MessageLog, topic: "input" | "output" | "dead-letters", partition = 0): Promise<LogMessage[]> {
  const found: LogMessage[] = [];
  for (let { start: at } = await log.bounds(topic, partition); ;) {
    const page = await log.read(topic, partition, at, ALL);
    found.push(...page.messages);
    if (page.next === at) return found;
    at = page.next;
  }
}

const texts = async (log: MessageLog, topic: "input" | "output" | "dead-letters"): Promise<string[]> =>
  (await all(log, topic)).map(({ value }) => Buffer.from(value!).toString());

const STEPS = {
  transactional: [API.Produce, API.AddPartitionsToTxn, API.AddOffsetsToTxn, API.EndTxn, API.TxnOffsetCommit],
  // Of the output, and now and then of dead letters.
  "single-owner": [API.Produce, API.Produce, API.OffsetCommit],
} as const;

for (const mode of ["transactional", "single-owner"] as const) {
  test(`[DDD5] ${mode}: a lost request, a lost answer, a connection that hangs, at each step: nothing lost, nothing twice, in order`, () =>
    faultsAt(mode));
}

async function faultsAt(mode: keyof typeof STEPS): Promise<void> {
  const topics = await newTopics();
  const sockets = new FaultySockets();
  const log = await openOn(topics, { socketFactory: sockets.factory, mode });
  const inputs = Array.from({ length: 60 }, (_, at) => message(`m${at}`));
  for (const input of inputs) await log.append(0, [input]);
  const failing = STEPS[mode].flatMap((api) => (["request-lost", "answer-lost", "hangs"] as const).map((fault) => [api, fault] as const));
  let unknown = 0;
  for (let session = await log.open(0, "worker"), next = session.acknowledgedInput; next < 60n;) {
    const input = next;
    const fault: readonly [number, SocketFault] | undefined = input % 3n === 1n ? failing.shift() : undefined;
    if (fault !== undefined) sockets.failNext(...fault);
    // Every fifth message is a duplicate: its transaction has nothing but the offset.
    const output = input % 5n === 4n ? [] : [message(`m${input}`, input)];
    const deadLetters = input % 5n === 3n ? [message(`dead ${input}`, input)] : [];
    const outcome = await session.publish(publication({ output, deadLetters, acknowledgedInput: input + 1n }));
    if (outcome.kind === "published") {
      next += 1n;
      continue;
    }
    assert.equal(outcome.kind, "unknown");
    unknown += 1;
    assert.equal(
      (await session.publish(publication({ acknowledgedInput: input + 1n }))).kind,
      "unknown",
      "the producer is never used again",
    );
    session = await openedAgain(log);
    assert.ok(session.acknowledgedInput === input || session.acknowledgedInput === input + 1n);
    next = session.acknowledgedInput;
  }
  const expected = inputs.flatMap((_, at) => (at % 5 === 4 ? [] : [`m${at}`]));
  assert.deepEqual(await texts(log, "output"), expected);
  assert.deepEqual(
    await texts(log, "dead-letters"),
    inputs.flatMap((_, at) => (at % 5 === 3 ? [`dead ${at}`] : [])),
  );
  assert.equal(failing.length, 0);
  assert.ok(unknown >= 6 && sockets.made >= unknown, `${unknown} unknown of ${sockets.made} faults`);
}

test("[DDD4] single-owner: the record of a new owner fences the one before, whose writes until then count", async () => {
  const topics = await newTopics();
  const [first, second] = [await openOn(topics, { mode: "single-owner" }), await openOn(topics, { mode: "single-owner" })];
  await first.append(0, [message("x"), message("y")]);
  const old = await first.open(0, "first");
  assert.equal((await old.publish(publication({ output: [message("a", 0n)], acknowledgedInput: 1n }))).kind, "published");
  const fresh = await second.open(0, "second");
  assert.deepEqual([fresh.acknowledgedInput, (await all(second, "output")).length], [1n, 1]);
  for (const topic of ["deadLetters", "output"] as const)
    assert.equal((await old.publish(publication({ [topic]: [message("late", 1n)], acknowledgedInput: 2n }))).kind, "fenced");
  assert.deepEqual([await first.isAssigned(0), await second.isAssigned(0)], [false, true]);
  assert.equal((await fresh.publish(publication({ output: [message("b", 1n)], acknowledgedInput: 2n }))).kind, "published");
  assert.deepEqual([await texts(second, "output"), await texts(second, "dead-letters")], [["a", "b"], []]);
});

test("[DDD4] single-owner: a worker with transactions comes: it fences the one without, in each topic", async () => {
  const topics = await newTopics();
  const [first, second] = [await openOn(topics, { mode: "single-owner" }), await openOn(topics)];
  await first.append(0, [message("x")]);
  const old = await first.open(0, "first");
  const fresh = await second.open(0, "second");
  assert.equal((await old.publish(publication({ output: [message("late", 0n)], acknowledgedInput: 1n }))).kind, "fenced");
  assert.equal((await fresh.publish(publication({ output: [message("a", 0n)], acknowledgedInput: 1n }))).kind, "published");
  assert.deepEqual(await texts(second, "output"), ["a"]);
});

test("[DDD5] single-owner: stopped between dead letters and output: they are not written again, and their offsets are said", async () => {
  const topics = await newTopics();
  const sockets = new FaultySockets();
  const log = await openOn(topics, { socketFactory: sockets.factory, mode: "single-owner" });
  await log.append(0, [message("x"), message("y"), message("z")]);
  const first = await log.open(0, "worker");
  const page = publication({ output: [message("o", 1n)], deadLetters: [message("d", 0n)], acknowledgedInput: 2n });
  sockets.failAfter(API.Produce, 1, "request-lost");
  assert.equal((await first.publish(page)).kind, "unknown");
  const second = await log.open(0, "worker");
  assert.equal(second.acknowledgedInput, 0n);
  const again = publication({ ...page, deadLetters: [message("d", 0n), message("e", 2n)], acknowledgedInput: 3n });
  const outcome = await second.publish(again);
  const letters = await all(log, "dead-letters");
  assert.deepEqual(
    letters.map(({ value }) => Buffer.from(value!).toString()),
    ["d", "e"],
  );
  assert.equal(outcome.kind, "published");
  assert.deepEqual(
    outcome.kind === "published" && outcome.deadLetterOffsets,
    letters.map(({ offset }) => offset),
  );
});

test("[DDD5] an append whose answer is lost: unknown; whose request is lost too: the log goes on", async () => {
  const sockets = new FaultySockets();
  const log = await openOn(await newTopics(), { socketFactory: sockets.factory });
  sockets.failNext(API.Produce, "answer-lost");
  await assert.rejects(log.append(0, [message("a")]), { code: "CONNECTION_LOST", applied: "unknown" });
  sockets.failNext(API.Produce, "request-lost");
  await assert.rejects(log.append(0, [message("b")]), { applied: "unknown" });
  await log.append(0, [message("c")]);
  assert.deepEqual(await texts(log, "input"), ["a", "c"]);
});

test("[DDD4] another worker opens: what the first one publishes is fenced, and it may not open again", async () => {
  const topics = await newTopics();
  const [first, second] = [await openOn(topics), await openOn(topics)];
  await first.append(0, [message("x")]);
  const old = await first.open(0, "first");
  const fresh = await second.open(0, "second");
  assert.equal((await old.publish(publication({ output: [message("a", 0n)], acknowledgedInput: 1n }))).kind, "fenced");
  assert.deepEqual([await first.isAssigned(0), await first.isAssigned(1), await second.isAssigned(0)], [false, true, true]);
  assert.equal((await fresh.publish(publication({ output: [message("b", 0n)], acknowledgedInput: 1n }))).kind, "published");
  assert.deepEqual(await texts(second, "output"), ["b"]);
});

test("a page above max.message.bytes: several batches in one transaction, consecutive offsets", async () => {
  const log = await openOn(await newTopics());
  const session = await log.open(0, "worker");
  const output = Array.from({ length: 5_000 }, (_, at) => message(`${at} ${"x".repeat(300)}`, BigInt(at)));
  const outcome = await session.publish(publication({ output }));
  assert.equal(outcome.kind, "published");
  const offsets = (await all(log, "output")).map(({ offset }) => offset);
  assert.deepEqual([offsets.length, offsets.at(-1)! - offsets[0]!], [5_000, 4_999n]);
});

test("[DDD5] pages of nothing but duplicates, back to back: all published", async () => {
  const log = await openOn(await newTopics());
  for (let at = 0; at < 40; at += 1) await log.append(0, [message("x")]);
  const session = await log.open(0, "worker");
  for (let at = 1n; at <= 40n; at += 1n) assert.equal((await session.publish(publication({ acknowledgedInput: at }))).kind, "published");
  assert.equal((await log.open(0, "worker")).acknowledgedInput, 40n);
});

test("a message of the far future: its time becomes now, its page is published", async () => {
  const log = await openOn(await newTopics());
  const { from } = await log.append(0, [message("x", undefined, 8_640_000_000_000_000)]);
  const [read] = (await log.read("input", 0, from, ALL)).messages;
  assert.ok(Math.abs(read!.timestampMs - Date.now()) < 600_000);
});

test("[DDD5] bytes that change after the call: what was given is appended", async () => {
  const log = await openOn(await newTopics());
  const given = message("before");
  const appended = log.append(0, [given]);
  given.value!.set(utf8("AFTER!"));
  await appended;
  assert.deepEqual(await texts(log, "input"), ["before"]);
});

test("[DDD3] a topic that grew: the partition stops", async () => {
  const topics = await newTopics();
  const log = await openOn(topics);
  await (await kafkaAdmin()).createPartitions({ topicPartitions: [{ topic: topics.output, count: 3 }] });
  const another = openKafkaLog(optionsFor(topics));
  await assert.rejects(another, { code: "SCHEMA_INVALID", message: /has 3 partitions, the configuration says 2/ });
  await log.close();
});

test("[DD10] the committed offset is gone beside an output with messages: the partition stops and says what to commit", async () => {
  const topics = await newTopics();
  const log = await openOn(topics);
  await log.append(0, [message("x")]);
  const session = await log.open(0, "worker");
  await session.publish(publication({ output: [message("a", 0n)], acknowledgedInput: 1n }));
  await (await kafkaAdmin()).deleteGroups([`${topics.input}-pipeline`]);
  await assert.rejects(log.open(0, "worker"), { code: "PARTITION_STOPPED", message: /offsets\.retention\.minutes.*commit 1 to the group/ });
});

test("input offsets that do not rise: refused as a bug, nothing is written", async () => {
  const log = await openOn(await newTopics());
  const session = await log.open(0, "worker");
  await session.publish(publication({ output: [message("a", 5n)] }));
  await assert.rejects(session.publish(publication({ output: [message("b", 5n)] })), /input offsets rise in the output/);
  assert.deepEqual(await texts(log, "output"), ["a"]);
});

test("[DD16] topics that cannot carry a pipeline: refused, each with its setting", async () => {
  const topics = await newTopics({
    "cleanup.policy": "compact",
    "message.timestamp.type": "LogAppendTime",
    "unclean.leader.election.enable": "true",
    "retention.ms": "1000",
    "max.message.bytes": "2000",
  });
  const settings = ["cleanup.policy", "message.timestamp.type", "unclean.leader.election.enable", "retention.ms", "max.message.bytes"];
  for (const setting of [...settings, "3 are required", "min.insync.replicas"]) {
    const options = optionsFor(topics, { replicasMin: 3, outputKeptMs: 2_000 });
    await assert.rejects(openKafkaLog(options), { code: "SCHEMA_INVALID", message: new RegExp(setting.replaceAll(".", "\\.")) });
  }
});

test("[DD16] brokers: each says its settings, those that are checked among them", async () => {
  const wire = new KafkajsWire({ brokers, clientId: "settings", topics: Object.values(await newTopics()), log: silentLog });
  try {
    for (const [number, settings] of await wire.brokerSettings()) {
      for (const name of ["offsets.retention.minutes", "transactional.id.expiration.ms"])
        assert.ok(Number(settings.get(name)) > 0, `broker ${number}: ${name}`);
    }
  } finally {
    await wire.close();
  }
});

test("no broker there: tried until it is aborted", async () => {
  const stop = new AbortController();
  let tries = 0;
  const log = {
    debug: () => undefined,
    info: () => undefined,
    error: () => undefined,
    warn: () => void ((tries += 1) === 2 && stop.abort()),
  };
  const options = optionsFor({ input: "i", output: "o", "dead-letters": "d" }, { brokers: ["127.0.0.1:1"], log, signal: stop.signal });
  await assert.rejects(openKafkaLog(options), { code: "REPLICAS_UNAVAILABLE" });
  assert.equal(tries, 2);
});

test("[DD16] topics that are made: a pipeline opens on them, the largest message of the input fits the output; made again they stay", async () => {
  const name = `made-${process.pid}-${Date.now()}`;
  const topics = { input: `${name}-in`, output: `${name}-out`, "dead-letters": `${name}-dead` };
  const options = optionsFor(topics, { partitions: 3 });
  await makeTopics({ ...options, replicas: 1 });
  const log = await openOn(topics, { partitions: 3 });
  await log.append(2, [message("x".repeat(log.appendBytesMax - 200))]);
  await makeTopics({ ...options, replicas: 1 });
  const [read] = await all(log, "input", 2);
  const session = await log.open(2, "worker");
  const headers = [...read!.headers, { name: "input", value: utf8("0") }, { name: "more", value: utf8("h".repeat(300)) }];
  assert.equal((await session.publish(publication({ output: [{ ...read!, headers }], acknowledgedInput: 1n }))).kind, "published");
});

test("reads of several callers at once on a new connection: it is made once, and none is open after the end", async () => {
  const topics = await newTopics();
  const sockets: Socket[] = [];
  const factory: ISocketFactory = ({ host, port, onConnect }) => {
    const socket = connect({ host, port }, onConnect);
    sockets.push(socket);
    return socket;
  };
  const log = await openKafkaLog(optionsFor(topics, { socketFactory: factory }));
  const { from } = await log.append(0, [message("a")]);
  const before = sockets.length;
  await Promise.all(Array.from({ length: 8 }, () => log.read("input", 0, from, ALL)));
  assert.equal(sockets.length, before + 1, "the one for fetches");
  await log.close();
  assert.deepEqual(
    sockets.filter(({ destroyed, writableEnded }) => !destroyed && !writableEnded),
    [],
  );
});

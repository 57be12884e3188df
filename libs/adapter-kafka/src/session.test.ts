// One owner's session over brokers that answer as the test says: what an answer must not be taken for.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { NewMessage, Publication } from "@concord/ports";
import { silentLog, type Clock } from "@concord/runtime";
import type { KafkaContext } from "./context.ts";
import { KafkaFailure, type KafkaWire, type Produced } from "./kafka-wire.ts";
import { BATCH_OVERHEAD_BYTES, COMMIT_EVERY_MS, PUBLISH_TIMEOUT_MS, SINGLE_OWNER_MS_MAX } from "./limits.ts";
import { Reader } from "./reader.ts";
import { encodeBatch } from "./record-batch.ts";
import { cuts, openSession } from "./session.ts";

const message = (text: string): NewMessage => ({ key: new Uint8Array(0), value: Buffer.from(text), headers: [], timestampMs: 1 });
const PAGE: Publication = { output: [message("a"), message("b")], deadLetters: [], rerouted: [], acknowledgedInput: 2n };
const never = (): Promise<never> => new Promise(() => undefined);

/** Timers fire on the next turn, short pauses and long ones alike. */
class FastClock implements Clock {
  readonly waited: number[] = [];
  nowMs = (): number => 1;
  nowUs = (): bigint => 1n;
  monotonic = 1;
  monotonicMs = (): number => this.monotonic;
  setTimer = (delayMs: number, action: () => void): { cancel: () => void } => {
    const immediate = setImmediate(() => {
      this.waited.push(delayMs);
      action();
    });
    return { cancel: () => clearImmediate(immediate) };
  };
  defer = (action: () => void): void => void setImmediate(action);
}

interface Scripted {
  readonly context: KafkaContext;
  readonly clock: FastClock;
  readonly calls: string[];
  readonly fencedBy: string[];
}

/** Brokers on which everything works, but what is changed. */
function brokers(change: Partial<KafkaWire> = {}, batchBytes = 1 << 20): Scripted {
  const calls: string[] = [];
  const clock = new FastClock();
  let end = 10n;
  const wire: KafkaWire = {
    partitions: async () => ({ partitions: 1, replicas: 3, id: "aa" }),
    settings: async () => new Map(),
    brokerSettings: async () => new Map(),
    createTopic: async () => undefined,
    bounds: async () => ({ start: end, end }),
    end: async () => end,
    replicatedEnd: async () => end,
    fetch: async () => ({ batches: Buffer.alloc(0), aborted: [], stableEnd: end }),
    produce: async (_topic, _partition, batch) => {
      const from = end;
      end += BigInt(Buffer.from(batch).readInt32BE(57));
      return { from, hasAppendTime: false };
    },
    initProducer: async (transactionalId) => ({ transactionalId, id: 1n, epoch: 0 }),
    addPartitions: async () => undefined,
    addOffset: async () => undefined,
    endTransaction: async () => undefined,
    commitOffset: async () => undefined,
    committed: async () => ({ offset: 0n, metadata: "other" }),
    close: async () => undefined,
    ...change,
  };
  const traced = new Proxy(wire, {
    get: (target, name) => {
      calls.push(String(name));
      return Reflect.get(target, name) as unknown;
    },
  });
  const topics = { input: "in", output: "out", "dead-letters": "dead" };
  const batchBytesMax = { input: batchBytes, output: batchBytes, "dead-letters": batchBytes };
  const reader = new Reader(traced);
  const context = {
    wire: traced,
    topics,
    pipeline: "p",
    partitions: 1,
    mode: "transactional" as const,
    batchBytesMax,
    reader,
    clock,
    log: silentLog,
    inputOffsetOf: () => undefined,
  };
  return { context, clock, calls, fencedBy: [] };
}

const open = ({ context, fencedBy }: Scripted) =>
  openSession(context, 0, "me", { written: () => undefined, fenced: (owner) => void fencedBy.push(owner) });

test("session: opens: fences before it reads, and says whose the partition is", async () => {
  const scripted = brokers();
  await open(scripted);
  assert.deepEqual(scripted.calls, [
    "partitions",
    "partitions",
    "partitions",
    "committed",
    "committed",
    "initProducer",
    "committed",
    "end",
    "replicatedEnd",
    "end",
    "replicatedEnd",
    "bounds",
    "bounds",
    "addOffset",
    "endTransaction",
    "commitOffset",
  ]);
});

for (const [what, answer] of [
  ["a time: the answer to a repetition", { from: 10n, hasAppendTime: true }],
  ["an offset that was there before", { from: 9n, hasAppendTime: false }],
] as const satisfies readonly (readonly [string, Produced])[]) {
  test(`[DDD5] session: a batch is answered with ${what}: unknown, never committed`, async () => {
    const scripted = brokers({ produce: async () => answer });
    const session = await open(scripted);
    scripted.calls.length = 0;
    assert.equal((await session.publish(PAGE)).kind, "unknown");
    assert.ok(!scripted.calls.includes("endTransaction"));
    assert.equal((await session.publish(PAGE)).kind, "unknown");
    assert.equal(scripted.calls.filter((call) => call === "produce").length, 1, "the producer is never used again");
  });
}

test("session: offsets of two batches do not follow each other: another one writes there, the partition stops", async () => {
  let from = 10n;
  const session = await open(brokers({ produce: async () => ({ from: (from += 5n), hasAppendTime: false }) }, 100));
  await assert.rejects(session.publish(PAGE), { code: "PARTITION_STOPPED", message: /another producer writes to out\/0/ });
});

test("session: a message larger than its topic takes: refused, naming the setting", async () => {
  const session = await open(brokers({ produce: () => Promise.reject(new KafkaFailure("too large", "MESSAGE_TOO_LARGE")) }));
  await assert.rejects(session.publish(PAGE), { code: "LIMIT_EXCEEDED", message: /max\.message\.bytes/ });
  assert.equal((await session.publish(PAGE)).kind, "unknown");
});

test("session: a message that its topics take only compressed: it is compressed in the output, the dead letters and the partition it is rerouted to", async () => {
  const sent: (readonly [topic: string, codec: number, fits: boolean])[] = [];
  const produce: KafkaWire["produce"] = async (topic, _partition, batch) => {
    const bytes = Buffer.from(batch);
    sent.push([topic, bytes.readInt16BE(21) & 7, bytes.length <= 1_000 + BATCH_OVERHEAD_BYTES]);
    return { from: 10n, hasAppendTime: false };
  };
  const session = await open(brokers({ produce }, 1_000));
  const large = { ...message("large"), value: Buffer.alloc(100_000) };
  await session.publish({ output: [large], deadLetters: [large], rerouted: [{ partition: 0, message: large }], acknowledgedInput: 3n });
  assert.deepEqual(sent, [
    ["in", 1, true],
    ["out", 1, true],
    ["dead", 1, true],
  ]);
});

test("session: a step that the transaction before holds up: repeated, in pauses", async () => {
  let refusals = 20;
  const addOffset = async (): Promise<void> => {
    if (refusals-- > 0) throw new KafkaFailure("concurrent", "CONCURRENT_TRANSACTIONS");
  };
  const scripted = brokers({ addOffset });
  const session = await open(scripted);
  assert.equal((await session.publish({ ...PAGE, output: [] })).kind, "published");
  assert.equal(scripted.clock.waited.filter((ms) => ms === 5).length, 20);
});

test("session: the broker refuses the owner: fenced, with the name of the one that came; the commit that is lost: unknown", async () => {
  for (const [type, kind, by] of [
    ["PRODUCER_FENCED", "fenced", ["other"]],
    ["INVALID_PRODUCER_EPOCH", "fenced", ["other"]],
    [undefined, "unknown", []],
  ] as const) {
    let commits = 0;
    const endTransaction = async (): Promise<void> => (commits++ > 0 ? Promise.reject(new KafkaFailure("refused", type)) : undefined);
    const scripted = brokers({ endTransaction });
    const session = await open(scripted);
    assert.equal((await session.publish(PAGE)).kind, kind);
    assert.deepEqual(scripted.fencedBy, by);
  }
});

test("session: a broker that never answers: unknown when the time is over", async () => {
  const scripted = brokers({ produce: never });
  const session = await open(scripted);
  assert.equal((await session.publish(PAGE)).kind, "unknown");
  assert.ok(scripted.clock.waited.includes(PUBLISH_TIMEOUT_MS));
});

for (const [what, end] of [
  ["a broker that cannot say what is visible", () => Promise.reject(new KafkaFailure("down", undefined))],
  ["what is committed never becomes visible", () => Promise.resolve(10n)],
] as const) {
  test(`session: ${what}: unknown, for the next owner may abort it (I9)`, async () => {
    let isOpen = false;
    const session = await open(brokers({ end: () => (isOpen ? end() : Promise.resolve(10n)) }));
    isOpen = true;
    assert.equal((await session.publish(PAGE)).kind, "unknown");
  });
}

const alone = (scripted: Scripted): Scripted => ({ ...scripted, context: { ...scripted.context, mode: "single-owner" } });

test("[DDD4] single-owner: opens: fences by the producer's id, then by a record in each topic, then reads", async () => {
  const scripted = alone(brokers());
  await open(scripted);
  const opening = scripted.calls.slice(5).filter((call) => !/[eE]nd$/.test(call));
  assert.deepEqual(opening, ["initProducer", "committed", "produce", "produce", "bounds", "bounds", "commitOffset", "commitOffset"]);
});

test("single-owner: one request per page with output; its offset is committed at most once a second", async () => {
  let input = 0n;
  const scripted = alone(brokers());
  const session = await open({ ...scripted, context: { ...scripted.context, inputOffsetOf: () => input++ } });
  const publish = async (): Promise<readonly string[]> => {
    scripted.calls.length = 0;
    assert.equal((await session.publish({ ...PAGE, acknowledgedInput: input + 2n })).kind, "published");
    return scripted.calls.filter((call) => call !== "end");
  };
  assert.deepEqual(await publish(), ["produce"]);
  scripted.clock.monotonic += COMMIT_EVERY_MS;
  assert.deepEqual(await publish(), ["produce", "commitOffset"]);
  assert.deepEqual(await publish(), ["produce"]);
  scripted.calls.length = 0;
  await session.publish({ ...PAGE, output: [], acknowledgedInput: 100n });
  assert.deepEqual(scripted.calls, ["commitOffset"], "nothing else says that these were processed");
});

test("single-owner: a session that is too old to be fenced: sends nothing more", async () => {
  const scripted = alone(brokers());
  const session = await open(scripted);
  scripted.clock.monotonic += SINGLE_OWNER_MS_MAX + 1;
  scripted.calls.length = 0;
  assert.equal((await session.publish(PAGE)).kind, "unknown");
  assert.deepEqual(scripted.calls, []);
});

test("[DDD4] session: ends of transactions on their way: waited for", async () => {
  let left = 20;
  const late = brokers({ replicatedEnd: async () => (left-- > 0 ? 12n : 10n) });
  await open(late);
  assert.equal(late.clock.waited.filter((ms) => ms === 5).length, 20);
  assert.ok(!late.calls.includes("addPartitions"));
});

interface HiddenCase {
  /** Input offsets of the messages that the output hides, all of them behind offset 10. */
  readonly inputs: readonly bigint[];
  readonly committed: bigint;
  readonly isOurs?: boolean;
}

/** The output hides messages until a transaction of the new owner has ended. */
function hiding({ inputs, committed, isOurs = true }: HiddenCase): Scripted & { readonly ends: string[] } {
  const ends: string[] = [];
  const hidden = encodeBatch(
    inputs.map((input) => message(`${input}`)),
    undefined,
    1,
  );
  Buffer.from(hidden.buffer, hidden.byteOffset).writeBigInt64BE(10n, 0);
  const to = 10n + BigInt(inputs.length);
  const isEnded = (): boolean => isOurs && ends.length > 0;
  const scripted = brokers({
    bounds: async () => ({ start: 10n, end: 10n }),
    end: async (topic) => (topic === "out" && isEnded() ? to : 10n),
    replicatedEnd: async (topic) => (topic === "out" ? to : 10n),
    committed: async () => ({ offset: committed, metadata: "other" }),
    fetch: async (_topic, _partition, _from, _bytes, options) =>
      options?.what === "undecided"
        ? { batches: hidden, aborted: [], stableEnd: 10n }
        : { batches: Buffer.alloc(0), aborted: [], stableEnd: 10n },
    addPartitions: async (_producer, partitions) => void ends.push(partitions.map(({ topic }) => topic).join()),
    endTransaction: async (_producer, as) => void ends.push(as),
  });
  const inputOffsetOf = ({ value }: NewMessage): bigint => BigInt(Buffer.from(value!).toString());
  return { ...scripted, context: { ...scripted.context, inputOffsetOf }, ends };
}

test("[DDD4] session: an end that never comes, of what is before where processing goes on: committed", async () => {
  const scripted = hiding({ inputs: [7n, 9n], committed: 8n });
  assert.equal((await open(scripted)).acknowledgedInput, 8n);
  assert.deepEqual(scripted.ends, ["out", "commit", "commit"], "and the offset's own");
});

test("[DDD4] session: an end that never comes, of what will be processed again: aborted", async () => {
  const scripted = hiding({ inputs: [8n, 9n], committed: 8n });
  assert.equal((await open(scripted)).acknowledgedInput, 8n);
  assert.deepEqual(scripted.ends, ["out", "abort", "commit"]);
});

test("[DDD4] session: an end that never comes, of another producer: not opened, no message is written", async () => {
  const scripted = hiding({ inputs: [8n], committed: 8n, isOurs: false });
  await assert.rejects(open(scripted), {
    code: "REPLICAS_UNAVAILABLE",
    message: /out\/0 hides a transaction of another producer from offset 10 on/,
  });
  for (const call of ["addOffset", "produce"]) assert.ok(!scripted.calls.includes(call), call);
});

test("[DDD5] session: a dead letter of what is processed again is there: not written again, and its offset is said", async () => {
  const letter = encodeBatch([message("3")], undefined, 1);
  const scripted = brokers({
    bounds: async (topic) => (topic === "dead" ? { start: 0n, end: 1n } : { start: 10n, end: 10n }),
    fetch: async (topic) => ({ batches: topic === "dead" ? Buffer.from(letter) : Buffer.alloc(0), aborted: [], stableEnd: 1n }),
  });
  const inputOffsetOf = ({ value }: NewMessage): bigint => BigInt(Buffer.from(value!).toString());
  const session = await open({ ...scripted, context: { ...scripted.context, inputOffsetOf } });
  scripted.calls.length = 0;
  const outcome = await session.publish({ output: [], deadLetters: [message("3")], rerouted: [], acknowledgedInput: 4n });
  assert.deepEqual(outcome.kind === "published" && outcome.deadLetterOffsets, [0n]);
  assert.ok(!scripted.calls.includes("produce"));
});

test("session: topics that grew: the partition stops", async () => {
  await assert.rejects(open(brokers({ partitions: async () => ({ partitions: 2, replicas: 3, id: "aa" }) })), {
    code: "PARTITION_STOPPED",
    message: /has 2 partitions by now and had 1/,
  });
});

const recorded = (record: string, topic = "in"): Scripted =>
  brokers({
    committed: async (_group, asked) => ({ offset: 0n, metadata: asked.topic === topic ? `other\npipeline ${record}` : "other" }),
  });

for (const topic of ["in", "dead"]) {
  test(`[DDD3] session: the pipeline was begun with another number of partitions, by the offset of ${topic}: stopped before it fences`, async () => {
    const scripted = recorded("partitions=2 input=aa output=aa", topic);
    await assert.rejects(open(scripted), { code: "PARTITION_STOPPED", message: /begun with 2 partitions.*with a new data folder too/s });
    assert.ok(!scripted.calls.includes("initProducer"));
  });
  test(`[DDD5] session: the topics were made anew, by the offset of ${topic}: stopped before it fences, and no offset is advised`, async () => {
    for (const [record, name] of [
      ["partitions=1 input=bb output=aa", "in"],
      ["partitions=1 input=aa output=bb", "out"],
    ] as const) {
      const scripted = recorded(record, topic);
      const message = new RegExp(`^${name} was deleted and made anew.*Committing another offset does not help`);
      await assert.rejects(open(scripted), { code: "PARTITION_STOPPED", message });
      assert.ok(!scripted.calls.includes("initProducer"));
    }
  });
}

test("[DDD3] session: each offset that is committed has the pipeline's record; so has the dead letters' one, which stays when the input is deleted", async () => {
  const metadata: string[] = [];
  const scripted = brokers({
    addOffset: async (_producer, _group, _input, committed) => void metadata.push(`in: ${committed.metadata}`),
    commitOffset: async (_group, { topic }, committed) => void metadata.push(`${topic}: ${committed.metadata}`),
  });
  await (await open(scripted)).publish(PAGE);
  const record = "pipeline partitions=1 input=aa output=aa";
  assert.deepEqual(metadata, [`in: me\n${record}`, `dead: \n${record}`, `in: me\n${record}`]);
});

/** Input of epoch 4 up to offset 5 and of epoch 6 behind it, as a broker has it that lost nothing. */
function ofEpochs(
  metadata: string,
  change: Partial<KafkaWire> = {},
): Scripted & { readonly committed: string[]; readonly asked: unknown[] } {
  const committed: string[] = [];
  const asked: unknown[] = [];
  const batch = (offset: bigint, epoch: number): Buffer => {
    const bytes = encodeBatch([message("m")], undefined, 1);
    bytes.writeBigInt64BE(offset, 0);
    bytes.writeInt32BE(epoch, 12);
    return bytes;
  };
  const note = (offset: bigint, text: string): void =>
    void committed.push(`${offset}: ${text.replace(/\npipeline.*/, "").replaceAll("\n", " ")}`);
  const scripted = brokers({
    committed: async (_group, { topic }) => (topic === "in" ? { offset: 5n, metadata } : undefined),
    addOffset: async (_producer, _group, _input, { offset, metadata: text }) => note(offset, text),
    commitOffset: async (_group, { topic }, { offset, metadata: text }) => (topic === "in" ? note(offset, text) : undefined),
    fetch: async (topic, _partition, from, _bytes, options) => {
      if (topic === "in") asked.push([from, options?.lastEpoch]);
      const batches = topic === "in" ? Buffer.concat([batch(5n, 4), batch(6n, 6), batch(7n, 6)]) : Buffer.alloc(0);
      return { batches, aborted: [], stableEnd: 10n };
    },
    ...change,
  });
  const context = { ...scripted.context, reader: new Reader(scripted.context.wire, "in") };
  return { ...scripted, context, committed, asked };
}

const readInput = ({ context }: Scripted) => context.reader.read("in", 0, 5n, { messages: 10, bytes: 1 << 20 });
const LOST = new KafkaFailure("what was read before offset 5 is not there from 3 on", "LOG_TRUNCATED");

for (const mode of ["transactional", "single-owner"] as const) {
  test(`[DDD5] session: ${mode}: the input lost what was published while no worker ran: stopped, and no offset is committed`, async () => {
    const lost: KafkaWire["fetch"] = async (topic, _partition, _from, _bytes, options) => {
      if (topic === "in" && options?.lastEpoch === 4) throw LOST;
      return { batches: Buffer.alloc(0), aborted: [], stableEnd: 10n };
    };
    const scripted = ofEpochs("other\nepoch=4\npipeline partitions=1 input=aa output=aa", { fetch: lost });
    const context = { ...scripted.context, mode };
    await assert.rejects(open({ ...scripted, context }), {
      code: "PARTITION_STOPPED",
      message: /^in\/0 lost messages that were read.*commit its offset anew/,
    });
    assert.deepEqual(scripted.committed, []);
  });
}

test("[DDD5] session: each committed offset has the leader epoch of the record before it; the next opening compares it", async () => {
  const scripted = ofEpochs("other\nepoch=4");
  const session = await open(scripted);
  await readInput(scripted);
  for (const acknowledgedInput of [6n, 7n]) await session.publish({ ...PAGE, output: [], acknowledgedInput });
  assert.deepEqual(scripted.committed, ["5: me epoch=4", "6: me epoch=4", "7: me epoch=6"]);
  assert.deepEqual(scripted.asked, [
    [5n, 4],
    [5n, 4],
  ]);
});

test("[DDD5] single-owner: the first output of an epoch comes after that epoch's commit: the position behind it can be compared", async () => {
  const scripted = ofEpochs("other\nepoch=4\nsingle-owner", {
    produce: async (topic) => {
      scripted.committed.push(topic);
      return { from: 20n, hasAppendTime: false };
    },
  });
  const context = { ...scripted.context, mode: "single-owner" as const, inputOffsetOf: () => 6n };
  const session = await open({ ...scripted, context });
  await readInput(scripted);
  scripted.committed.length = 0;
  await session.publish({ output: [message("a")], deadLetters: [], rerouted: [], acknowledgedInput: 7n });
  assert.deepEqual(scripted.committed, ["5: me epoch=6 single-owner", "out"]);
});

test("[DDD5] session: the committed offset of a version before, or of an operator, has no epoch: accepted, said once for all partitions", async () => {
  const lines: string[] = [];
  const log = { ...silentLog, info: (text: string) => void lines.push(text) };
  const scripted = ofEpochs("");
  for (const _ of [1, 2]) await open({ ...scripted, context: { ...scripted.context, log } });
  assert.deepEqual(lines, [
    "a committed offset has no leader epoch: a loss of input before it cannot be seen; publications commit one from now on",
  ]);
  assert.deepEqual(scripted.asked, []);
});

test("session: cuts: below, at and above the limit; a message alone is never cut", () => {
  const sizes = (bytes: number): number[] => [...cuts([message("a"), message("b"), message("c")], bytes)].map(({ length }) => length);
  assert.deepEqual([sizes(65 * 3), sizes(65 * 3 - 1), sizes(65 * 2 - 1), sizes(1)], [[3], [2, 1], [1, 1, 1], [1, 1, 1]]);
  assert.deepEqual([...cuts([], 10)], []);
});

// One owner's session over brokers that answer as the test says: what an answer must not be taken for.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { NewMessage, Publication } from "@concord/ports";
import { silentLog, type Clock } from "@concord/runtime";
import type { KafkaContext } from "./context.ts";
import { KafkaFailure, type KafkaWire, type Produced } from "./kafka-wire.ts";
import { COMMIT_EVERY_MS, PUBLISH_TIMEOUT_MS, SINGLE_OWNER_MS_MAX } from "./limits.ts";
import { Reader } from "./reader.ts";
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
    partitions: async () => ({ partitions: 1, replicas: 3 }),
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
    commit: async () => undefined,
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
    "initProducer",
    "committed",
    "end",
    "replicatedEnd",
    "end",
    "replicatedEnd",
    "bounds",
    "addOffset",
    "commit",
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
    assert.ok(!scripted.calls.includes("commit"));
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
    const scripted = brokers({ commit: async () => (commits++ > 0 ? Promise.reject(new KafkaFailure("refused", type)) : undefined) });
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

test("session: a broker that cannot say what is visible: what is committed is published", async () => {
  let isDown = false;
  const session = await open(brokers({ end: () => (isDown ? Promise.reject(new KafkaFailure("down", undefined)) : Promise.resolve(10n)) }));
  isDown = true;
  assert.equal((await session.publish(PAGE)).kind, "published");
});

const alone = (scripted: Scripted): Scripted => ({ ...scripted, context: { ...scripted.context, mode: "single-owner" } });

test("[DDD4] single-owner: opens: fences by the producer's id, then by a record in each topic, then reads", async () => {
  const scripted = alone(brokers());
  await open(scripted);
  const opening = scripted.calls.slice(3).filter((call) => !/[eE]nd$/.test(call));
  assert.deepEqual(opening, ["initProducer", "committed", "produce", "produce", "bounds", "bounds", "commitOffset"]);
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

test("[DDD4] session: ends of transactions on their way: waited for; one that never comes: not opened, nothing is read or written", async () => {
  let left = 20;
  const late = brokers({ replicatedEnd: async () => (left-- > 0 ? 12n : 10n) });
  await open(late);
  assert.equal(late.clock.waited.filter((ms) => ms === 5).length, 20);
  const lost = brokers({ replicatedEnd: async () => 12n });
  await assert.rejects(open(lost), {
    code: "REPLICAS_UNAVAILABLE",
    message: /out\/0 hides a transaction from offset 10 on that has no end/,
  });
  for (const call of ["bounds", "addOffset", "commit", "produce"]) assert.ok(!lost.calls.includes(call), call);
});

test("session: topics that grew: the partition stops", async () => {
  await assert.rejects(open(brokers({ partitions: async () => ({ partitions: 2, replicas: 3 }) })), {
    code: "PARTITION_STOPPED",
    message: /has 2 partitions by now and had 1/,
  });
});

test("session: cuts: below, at and above the limit; a message alone is never cut", () => {
  const sizes = (bytes: number): number[] => [...cuts([message("a"), message("b"), message("c")], bytes)].map(({ length }) => length);
  assert.deepEqual([sizes(65 * 3), sizes(65 * 3 - 1), sizes(65 * 2 - 1), sizes(1)], [[3], [2, 1], [1, 1, 1], [1, 1, 1]]);
  assert.deepEqual([...cuts([], 10)], []);
});

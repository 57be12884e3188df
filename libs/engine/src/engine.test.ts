// The engine over a store whose syncs end when the test says so.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { MemoryKeyValue } from "@concord/port-contracts";
import type { DerivedWrite, KeyValueOperation, StoreStep } from "@concord/ports";
import { ConcordError, type Clock } from "@concord/runtime";
import { Engine, type EngineLimits } from "./index.ts";

let nowMs = 0;
const clock: Clock = {
  nowMs: () => 0,
  nowUs: () => 0n,
  monotonicMs: () => nowMs,
  setTimer: () => ({ cancel: () => undefined }),
  defer: (action) => action(),
};

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const textOf = (value: Uint8Array | undefined): string | undefined => value && new TextDecoder().decode(value);
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Batches wait for `release`; a batch is visible to reads when it is synced, as in LevelDB. */
class HeldStore extends MemoryKeyValue {
  readonly batches: { readonly operations: readonly KeyValueOperation[]; end(error?: Error): Promise<void> }[] = [];
  loads = 0;

  override getMany(keys: readonly Uint8Array[]): Promise<(Uint8Array | undefined)[]> {
    this.loads += 1;
    return super.getMany(keys);
  }

  override write(persist: ReadonlyMap<string, KeyValueOperation>, derived: readonly DerivedWrite[]): Promise<void> {
    return new Promise((resolve, reject) => {
      const end = async (error?: Error): Promise<void> => {
        if (error !== undefined) return reject(error);
        await super.write(persist, derived);
        resolve();
      };
      this.batches.push({ operations: [...persist.values(), ...derived], end });
    });
  }
}

function setUp(limits: Partial<EngineLimits> = {}): { engine: Engine; store: HeldStore; failures: ConcordError[] } {
  const store = new HeldStore();
  const failures: ConcordError[] = [];
  const engine = new Engine({ store, clock, limits, onFailed: (cause) => failures.push(cause) });
  return { engine, store, failures };
}

/** Appends to a text under a key; answers the new text. */
function append(key: string, suffix: string): StoreStep<string> {
  return {
    load: [bytes(key)],
    run([value]) {
      const next = (textOf(value) ?? "") + suffix;
      return { persist: [{ kind: "put", key: bytes(key), value: bytes(next) }], reply: next };
    },
  };
}

const look = (key: string): StoreStep<string | undefined> => ({
  load: [bytes(key)],
  run: ([value]) => ({ persist: [], reply: textOf(value) }),
});

function watch<Value>(promise: Promise<Value>): { state: string } {
  const watched = { state: "waiting" };
  promise.then(
    (value) => (watched.state = String(value)),
    (error: unknown) => (watched.state = error instanceof ConcordError ? `${error.code}/${error.applied}` : String(error)),
  );
  return watched;
}

test("[TX27] submit: written but not synced: no reply; synced: reply (I1)", async () => {
  const { engine, store } = setUp();
  const reply = watch(engine.submit(append("k", "a")));
  await turn();
  assert.equal(store.batches.length, 1);
  assert.equal(reply.state, "waiting");
  await store.batches[0]!.end();
  await turn();
  assert.equal(reply.state, "a");
});

test("submit: many while one batch syncs: they share the next batch, in order (I2)", async () => {
  const { engine, store } = setUp();
  const first = watch(engine.submit(append("k", "a")));
  await turn();
  const rest = ["b", "c", "d"].map((suffix) => watch(engine.submit(append("k", suffix))));
  await turn();
  assert.equal(store.batches.length, 1);
  await store.batches[0]!.end();
  await turn();
  assert.equal(first.state, "a");
  assert.equal(store.batches.length, 2);
  assert.equal(store.batches[1]!.operations.length, 1, "one write per key");
  await store.batches[1]!.end();
  await turn();
  assert.deepEqual(
    rest.map((watched) => watched.state),
    ["ab", "abc", "abcd"],
  );
  assert.equal(textOf(await store.get(bytes("k"))), "abcd");
});

test("submit: keys of the next batch: loaded while the one before syncs", async () => {
  const { engine, store } = setUp();
  void engine.submit(append("a", "1"));
  await turn();
  void engine.submit(append("b", "1"));
  await turn();
  assert.equal(store.loads, 2);
  assert.equal(store.batches.length, 1);
  await store.batches[0]!.end();
  await turn();
  assert.equal(store.batches.length, 2);
});

test("submit: a step throws: it alone is rejected and persists nothing", async () => {
  const { engine, store } = setUp();
  const refused = new ConcordError("NOT_FOUND", "no");
  const before = watch(engine.submit(append("k", "a")));
  const failing = watch(
    engine.submit({
      load: [bytes("k")],
      run() {
        throw refused;
      },
    }),
  );
  const after = watch(engine.submit(append("k", "b")));
  await turn();
  await store.batches[0]!.end();
  await turn();
  assert.deepEqual([before.state, failing.state, after.state], ["a", "NOT_FOUND/no", "ab"]);
});

test("submit: only reads: no sync; behind a write: not answered before it is synced", async () => {
  const { engine, store } = setUp();
  assert.equal(await engine.submit(look("k")), undefined);
  assert.equal(store.batches.length, 0);
  void engine.submit(append("k", "a"));
  await turn();
  const reading = watch(engine.submit(look("k")));
  await turn();
  assert.equal(reading.state, "waiting");
  await store.batches[0]!.end();
  await turn();
  assert.equal(reading.state, "a");
  assert.equal(store.batches.length, 1);
});

test("submit: a batch fails: its steps unknown, waiting ones not applied, later ones refused, onFailed once (I3)", async () => {
  const { engine, store, failures } = setUp();
  const syncing = watch(engine.submit(append("k", "a")));
  await turn();
  const waiting = watch(engine.submit(append("k", "b")));
  await turn();
  await store.batches[0]!.end(new ConcordError("STORE_FAILED", "disk"));
  await turn();
  const later = watch(engine.submit(append("k", "c")));
  const reading = watch(engine.getMany([bytes("k")]));
  await turn();
  assert.deepEqual(
    [syncing.state, waiting.state, later.state, reading.state],
    ["STORE_FAILED/unknown", "STORE_FAILED/no", "STORE_FAILED/no", "STORE_FAILED/no"],
  );
  assert.equal(failures.length, 1);
  await engine.whenIdle();
});

test("submit: the store refuses a read as OVERLOADED: its steps are refused, later ones of the same key are served (I10)", async () => {
  const { engine, store, failures } = setUp();
  const load = Promise.withResolvers<(Uint8Array | undefined)[]>();
  store.getMany = () => load.promise;
  const refused = watch(engine.submit(append("k", "b")));
  await turn();
  const later = watch(engine.submit(append("k", "c")));
  await turn();
  Reflect.deleteProperty(store, "getMany");
  load.reject(new ConcordError("OVERLOADED", "EMFILE", { applied: "no" }));
  await turn();
  await store.batches[0]!.end();
  await turn();
  assert.deepEqual([refused.state, later.state, failures], ["OVERLOADED/no", "c", []]);
  assert.equal(engine.size, 0);
  const reading = watch(engine.getMany([bytes("k")]).then(([value]) => textOf(value)));
  await turn();
  assert.equal(reading.state, "c");
});

test("[TXD14] peek: this replica's own sync failed: a master beside it asks the others, whatever is cached", async () => {
  const { engine, store } = setUp();
  for (const [at, key] of ["k", "other"].entries()) {
    void engine.submit(append(key, "a"));
    await turn();
    await store.batches[at]!.end();
    await turn();
  }
  assert.notEqual(engine.peek(bytes("k")), "ask");
  const failing = watch(engine.submit(append("other", "b")));
  await turn();
  await store.batches[2]!.end(new ConcordError("STORE_FAILED", "disk"));
  await turn();
  assert.equal(failing.state, "STORE_FAILED/unknown");
  assert.deepEqual([engine.peek(bytes("k")), engine.peek(bytes("other"))], ["ask", "ask"]);
});

test("submit: at and above the limit of steps: taken, then OVERLOADED", async () => {
  const { engine, store } = setUp({ stepsMax: 3 });
  const taken = ["a", "b", "c"].map((suffix) => watch(engine.submit(append("k", suffix))));
  const above = watch(engine.submit(append("k", "d")));
  await turn();
  assert.equal(above.state, "OVERLOADED/no");
  await store.batches[0]!.end();
  await turn();
  assert.deepEqual(
    taken.map((watched) => watched.state),
    ["a", "ab", "abc"],
  );
  void engine.submit(append("k", "e"));
  await turn();
  assert.equal(store.batches.length, 2);
});

test("submit: more than a batch may hold: several batches, in order", async () => {
  const { engine, store } = setUp({ batchStepsMax: 2 });
  const all = ["a", "b", "c", "d", "e"].map((suffix) => watch(engine.submit(append("k", suffix))));
  for (let batch = 0; batch < 3; batch += 1) {
    await turn();
    assert.equal(store.batches.length, batch + 1);
    await store.batches[batch]!.end();
  }
  await turn();
  assert.equal(all.at(-1)!.state, "abcde");
});

test("getMany: a step writes one of the keys: waits for it; other keys: at once (I5)", async () => {
  const { engine, store } = setUp();
  void engine.submit(append("k", "a"));
  const behind = watch(engine.getMany([bytes("k")]));
  const beside = watch(engine.getMany([bytes("other")]));
  await turn();
  await turn();
  assert.equal(behind.state, "waiting");
  assert.equal(beside.state, "");
  await store.batches[0]!.end();
  await turn();
  assert.equal(behind.state, String(bytes("a")));
  const loads = store.loads;
  assert.deepEqual((await engine.getMany([bytes("none"), bytes("k"), bytes("none")])).map(textOf), [undefined, "a", undefined]);
  assert.equal(store.loads, loads + 1, "a cached key is not loaded");
});

test("[OPS11] a write waits for space: what is on disk of its keys, and of keys that it compares, is read at once (I11)", async () => {
  const { engine, store } = setUp();
  for (const key of ["header", "row"]) await store.batch([{ kind: "put", key: bytes(key), value: bytes("old") }], { sync: true });
  const write = watch(
    engine.submit({
      load: [bytes("header")],
      run: ([header]) => ({ persist: [{ kind: "put", key: bytes("row"), value: bytes("new") }], reply: textOf(header) }),
    }),
  );
  await turn();
  const later = watch(engine.submit(append("header", "er")));
  await turn();
  assert.equal(store.batches.length, 1, "the sync has begun, and ends when there is space");
  const keys = ["header", "row", "none"].map(bytes);
  const all = { from: bytes("a"), to: bytes("z"), limit: 9 };
  assert.deepEqual((await engine.getSynced(keys)).map(textOf), ["old", "old", undefined]);
  assert.deepEqual(
    (await engine.rangeSynced(all)).map(({ value }) => textOf(value)),
    ["old", "old"],
  );
  assert.deepEqual([write.state, later.state], ["waiting", "waiting"]);
  await store.batches[0]!.end();
  await turn();
  assert.equal(write.state, "old");
  assert.deepEqual((await engine.getSynced(keys)).map(textOf), ["old", "new", undefined], "an answered write is seen");
  await store.batches[1]!.end();
  await turn();
  assert.equal(later.state, "older");
  assert.deepEqual((await engine.getSynced(keys)).map(textOf), ["older", "new", undefined]);
});

test("reads of what is on disk: of a key that waiting steps compare, and none has written, the store is not asked (I11)", async () => {
  const { engine, store } = setUp();
  const keys = ["header", "row"].map(bytes);
  for (const key of keys) await store.batch([{ kind: "put", key, value: bytes("old") }], { sync: true });
  const put = { kind: "put", key: bytes("row"), value: bytes("new") } as const;
  void engine.submit({ load: keys, run: () => ({ persist: [put], derived: [], reply: undefined }) });
  void engine.submit({ load: [bytes("log")], run: () => ({ persist: [], derived: [{ ...put, key: bytes("log") }], reply: undefined }) });
  await turn();
  assert.equal(store.batches.length, 1, "the sync has begun");
  const later = watch(
    engine.submit({ load: [bytes("header"), bytes("log")], run: (values) => ({ persist: [], reply: values.map(textOf) }) }),
  );
  await turn();
  const loads = store.loads;
  assert.deepEqual((await engine.getSynced([bytes("header")])).map(textOf), ["old"]);
  assert.equal(store.loads, loads, "no step writes the header");
  assert.deepEqual((await engine.getSynced([...keys, bytes("log")])).map(textOf), ["old", "old", undefined]);
  assert.equal(store.loads, loads + 1, "what is written, and what is derived, is not on disk yet");
  await store.batches[0]!.end();
  await turn();
  assert.equal(later.state, "old,new");
  assert.deepEqual((await engine.getSynced([...keys, bytes("log")])).map(textOf), ["old", "new", "new"]);
});

test("cache: what steps only write is loaded when it is read; what they read and write is kept", async () => {
  const { engine, store } = setUp();
  const write = { kind: "put", key: bytes("written"), value: bytes("x") } as const;
  void engine.submit({ load: [], run: () => ({ persist: [write], reply: undefined }) });
  void engine.submit(append("read", "a"));
  await turn();
  await store.batches[0]!.end();
  await turn();
  const loads = store.loads;
  await engine.getMany([bytes("read")]);
  assert.equal(store.loads, loads);
  await engine.getMany([bytes("written")]);
  assert.equal(store.loads, loads + 1);
});

test("range: a step writes inside: waits for it; outside: at once (I5)", async () => {
  const { engine, store } = setUp();
  void engine.submit(append("k", "a"));
  const inside = watch(engine.range({ from: bytes("a"), to: bytes("z"), limit: 9 }).then((entries) => entries.length));
  const outside = watch(engine.range({ from: bytes("l"), to: bytes("z"), limit: 9 }).then((entries) => entries.length));
  await turn();
  await turn();
  assert.deepEqual([inside.state, outside.state], ["waiting", "0"]);
  await store.batches[0]!.end();
  await turn();
  await turn();
  assert.equal(inside.state, "1");
});

/** Puts a key without journalling it. */
function derive(key: string, value: string): StoreStep<undefined> {
  return { load: [], run: () => ({ persist: [], derived: [{ kind: "put", key: bytes(key), value: bytes(value) }], reply: undefined }) };
}

test("derived: reads and steps while it is synced: each one of the key waits and sees it; what was loaded or cached before is not seen", async () => {
  const { engine, store } = setUp();
  await store.batch([{ kind: "put", key: bytes("k"), value: bytes("old") }], { sync: true });
  assert.equal(await engine.submit(look("k")), "old");
  assert.deepEqual((await engine.getMany([bytes("k")])).map(textOf), ["old"]);
  void engine.submit(derive("k", "new"));
  await turn();
  const reading = watch(engine.getMany([bytes("k")]).then(([value]) => textOf(value)));
  const ranging = watch(engine.range({ from: bytes("a"), to: bytes("z"), limit: 9 }).then((entries) => textOf(entries[0]!.value)));
  const beside = watch(engine.range({ from: bytes("l"), to: bytes("z"), limit: 9 }).then((entries) => entries.length));
  const step = watch(engine.submit(append("k", "er")));
  await turn();
  assert.deepEqual([reading.state, ranging.state, beside.state, step.state], ["waiting", "waiting", "0", "waiting"]);
  await store.batches[0]!.end();
  await turn();
  // All three were behind the sync, in one batch: so they end with the step's write.
  await store.batches[1]!.end();
  await turn();
  assert.deepEqual([reading.state, ranging.state, step.state], ["new", "newer", "newer"]);
  assert.deepEqual((await engine.getMany([bytes("k")])).map(textOf), ["newer"]);
});

test("derived: a step's key is being loaded meanwhile: the step sees what was derived, not what was loaded", async () => {
  const { engine, store } = setUp();
  const loads = holdLoads(store);
  void engine.submit(derive("k", "new"));
  const step = engine.submit(look("k"));
  await turn();
  for (const load of loads.splice(0)) load();
  await turn();
  await store.batches[0]!.end();
  assert.equal(await step, "new");
});

/** Loads answer what the store had when they were asked, once their entry of the answer is called. */
function holdLoads(store: HeldStore): (() => void)[] {
  const held: (() => void)[] = [];
  const getMany = store.getMany.bind(store);
  store.getMany = async (keys) => {
    const values = await getMany(keys);
    await new Promise<void>((resolve) => held.push(resolve));
    return values;
  };
  return held;
}

test("cache: more values than it may hold: every step still sees the newest", async () => {
  const { engine, store } = setUp({ cacheEntriesMax: 2, cacheBytesMax: 20 });
  for (let round = 0; round < 3; round += 1) {
    for (const key of ["a", "b", "c", "d"]) {
      const reply = engine.submit(append(key, "x"));
      await turn();
      await store.batches.at(-1)!.end();
      assert.equal(await reply, "x".repeat(round + 1));
    }
  }
});

test("property: any steps in any batches: replies and store as if run one by one", async () => {
  const operation = fc.record({
    key: fc.constantFrom("a", "b", "c"),
    action: fc.constantFrom("append", "look", "delete", "derive", "throw"),
    pause: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.array(operation, { maxLength: 40, size: "max" }),
      fc.integer({ min: 1, max: 5 }),
      async (operations, batchStepsMax) => {
        const store = new MemoryKeyValue();
        const engine = new Engine({ store, clock, limits: { batchStepsMax, cacheEntriesMax: 1 }, onFailed: assert.fail });
        const model = new Map<string, string>();
        const replies: Promise<unknown>[] = [];
        const expected: unknown[] = [];
        for (const { key, action, pause } of operations) {
          replies.push(engine.submit(stepOf(key, action)).catch((error: unknown) => (error as Error).message));
          expected.push(runModel(model, key, action));
          if (pause) await turn();
        }
        assert.deepEqual(await Promise.all(replies), expected);
        const stored = store.contents().map((entry) => [textOf(entry.key), textOf(entry.value)]);
        assert.deepEqual(
          stored,
          [...model].sort(([left], [right]) => (left < right ? -1 : 1)),
        );
      },
    ),
    { numRuns: 60 },
  );
});

test("property: any steps and syncs: a read of what is on disk answers what the store has as of the call (I11)", async () => {
  const keys = ["a", "b", "c"];
  const action = fc.record({
    key: fc.constantFrom(...keys),
    action: fc.constantFrom("append", "look", "delete", "derive", "throw"),
    ends: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(action, { maxLength: 40, size: "max" }), async (actions) => {
      const { engine, store } = setUp({ cacheEntriesMax: 1 });
      for (const { key, action, ends } of actions) {
        engine.submit(stepOf(key, action)).catch(() => undefined);
        if (ends) await store.batches.shift()?.end();
        await turn();
        const contents = new Map(store.contents().map((entry) => [textOf(entry.key), textOf(entry.value)]));
        const synced = await engine.getSynced(keys.map(bytes));
        assert.deepEqual(
          synced.map(textOf),
          keys.map((each) => contents.get(each)),
        );
      }
    }),
    { numRuns: 60 },
  );
});

function stepOf(key: string, action: string): StoreStep<string | undefined> {
  if (action === "append") return append(key, "x");
  if (action === "derive") return derive(key, "derived");
  if (action === "look") return look(key);
  return {
    load: [bytes(key)],
    run([value]) {
      if (action === "throw") throw new Error("refused");
      return { persist: [{ kind: "delete", key: bytes(key) }], reply: textOf(value) };
    },
  };
}

function runModel(model: Map<string, string>, key: string, action: string): string | undefined {
  const value = model.get(key);
  if (action === "throw") return "refused";
  if (action === "delete") model.delete(key);
  if (action === "derive") {
    model.set(key, "derived");
    return undefined;
  }
  if (action === "append") model.set(key, `${value ?? ""}x`);
  return action === "append" ? model.get(key) : value;
}

test("submit: derived writes: seen by later steps, on disk when the checkpoint that began after them is durable", async () => {
  const { engine, store } = setUp();
  const checkpoints: string[] = [];
  let ran = 0;
  engine.onCheckpoint(() => {
    const begun = ran;
    return () => checkpoints.push(`steps before ${begun}`);
  });
  const derive: StoreStep<undefined> = {
    load: [],
    run: () => {
      ran += 1;
      return { persist: [], derived: [{ kind: "put", key: bytes("row"), value: bytes("r") }], reply: undefined };
    },
  };
  const derived = engine.submit(derive);
  const seen = watch(engine.submit(look("row")));
  await turn();
  assert.deepEqual(checkpoints, []);
  await store.batches[0]!.end();
  await derived;
  assert.equal(seen.state, "r");
  assert.deepEqual(checkpoints, ["steps before 1"]);
  assert.equal(textOf(await store.get(bytes("row"))), "r");
});

test("submit: one key persisted and derived in a batch: persisted last ends what was derived, derived last leaves what was persisted", async () => {
  const { engine, store } = setUp();
  const put = (key: string, value: string): KeyValueOperation => ({ kind: "put", key: bytes(key), value: bytes(value) });
  const step = (persist: KeyValueOperation[], derived: KeyValueOperation[]): StoreStep<undefined> => {
    return { load: [], run: () => ({ persist, derived, reply: undefined }) };
  };
  const replies = [
    engine.submit(step([put("a", "persisted")], [put("b", "derived")])),
    engine.submit(step([put("b", "persisted")], [put("a", "derived")])),
  ];
  await turn();
  assert.deepEqual(
    store.batches[0]!.operations.map(({ key }) => textOf(key)),
    ["a", "b", "a"],
  );
  await store.batches[0]!.end();
  await Promise.all(replies);
  assert.deepEqual(await Promise.all([engine.submit(look("a")), engine.submit(look("b"))]), ["derived", "persisted"]);
});

test("derived: read while it is synced, then cached: the cache keeps the value, not the buffer it is a part of", async () => {
  const { engine, store } = setUp();
  const buffer = bytes("x".repeat(1000));
  const value = buffer.subarray(10, 12);
  for (const [at, load] of [[], [bytes("k")]].entries()) {
    void engine.submit({ load, run: () => ({ persist: [], derived: [{ kind: "put", key: bytes("k"), value }], reply: undefined }) });
    await turn();
    const reading = engine.getMany([bytes("k")]);
    await turn();
    await store.batches[at]!.end();
    const [read] = await reading;
    assert.equal(textOf(read), "xx");
    assert.equal((engine.peek(bytes("k")) as Uint8Array).buffer.byteLength, 2);
  }
});

test("[TXD5] rangeAtOnce: steps before the call: seen once synced; one that runs meanwhile: changed inside the range only (I8)", async () => {
  const { engine, store } = setUp();
  void engine.submit(append("k1", "a"));
  await turn();
  const seen = engine.rangeAtOnce({ from: bytes("k"), to: bytes("l"), limit: 9 });
  const outside = engine.rangeAtOnce({ from: bytes("x"), to: bytes("y"), limit: 9 });
  const overtaken = engine.rangeAtOnce({ from: bytes("k"), to: bytes("m"), limit: 9 });
  void engine.submit(append("l1", "b"));
  await store.batches[0]!.end();
  await turn();
  await store.batches[1]!.end();
  const entries = await seen;
  assert(entries !== "changed");
  assert.deepEqual(
    entries.map(({ value }) => textOf(value)),
    ["a"],
  );
  assert.deepEqual(await outside, []);
  assert.equal(await overtaken, "changed");
});

test("submit: at its deadline when its turn comes: not run, applied no; before it, or without one: run (I9)", async () => {
  const { engine, store } = setUp();
  void engine.submit(append("k", "a"));
  await turn();
  const late = watch(engine.submit({ ...append("k", "b"), deadlineAtMs: nowMs + 10 }));
  const inTime = watch(engine.submit({ ...append("k", "c"), deadlineAtMs: nowMs + 11 }));
  const patient = watch(engine.submit(append("k", "d")));
  nowMs += 10;
  await store.batches[0]!.end();
  await turn();
  await store.batches[1]!.end();
  await turn();
  assert.deepEqual([late.state, inTime.state, patient.state], ["DEADLINE_EXCEEDED/no", "ac", "acd"]);
});

test("cache: what a step persists as a part of a larger buffer: only the value is kept", async () => {
  const { engine, store } = setUp();
  const value = new Uint8Array(8192).subarray(10, 13);
  const step: StoreStep<void> = {
    load: [bytes("k")],
    run: () => ({ persist: [{ kind: "put", key: bytes("k"), value }], reply: undefined }),
  };
  const submitted = engine.submit(step);
  await turn();
  await store.batches[0]!.end();
  await submitted;
  const cached = engine.peek(bytes("k")) as Uint8Array;
  assert.deepEqual(cached, new Uint8Array(3));
  assert.equal(cached.buffer.byteLength, 3);
});

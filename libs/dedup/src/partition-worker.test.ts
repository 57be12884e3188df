// The processing loop of one partition on the reference log: results, order, lost sessions, rebuilding.
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryMessageLog } from "@concord/port-contracts";
import { ConcordError } from "@concord/runtime";
import { SEEN_IDS_MAX, WAITERS_MAX } from "./limits.ts";
import { partitionOfId } from "./murmur2.ts";
import { ID_HEADER, ORIGIN_HEADER, readOrigin, readStoredOrigin } from "./origin.ts";
import { all, FastClock, fixture, Life, message, OPTIONS, opening, outputValues, processed, textOf, until, utf8 } from "./test/fixture.ts";
import { windowMemoryBytes } from "./worker-options.ts";

test("[DD1] processing: an id sent twice: published once, both callers get their result", async () => {
  const { log, worker } = fixture();
  await worker.start();
  const { from } = await log.append(0, [message("a"), message("b"), message("a")]);
  assert.deepEqual(await Promise.all([0n, 1n, 2n].map((each) => worker.whenProcessed(from + each))), [
    { kind: "accepted", offset: 0n },
    { kind: "accepted", offset: 1n },
    { kind: "duplicate" },
  ]);
  await log.append(0, [message("b"), message("c")]);
  assert.deepEqual(await worker.whenProcessed(from + 3n), { kind: "duplicate" });
  assert.deepEqual(await worker.whenProcessed(from + 4n), { kind: "accepted", offset: 3n }, "behind the marker");
  assert.deepEqual(await outputValues(log), ["value of a", "value of b", "value of c"]);
  assert.deepEqual(await worker.seen([utf8("a"), utf8("z")]), [true, false]);
  await worker.stop();
});

test("processing: more than a segment and the window: segments are written and the oldest dropped", async () => {
  const { log, worker } = fixture();
  await worker.start();
  await log.append(
    0,
    Array.from({ length: 200 }, (_, at) => message(`id ${at}`)),
  );
  await processed({ worker });
  await log.append(
    0,
    // 36 ids in 45 offsets: each page of four leaves a marker.
    Array.from({ length: 36 }, (_, at) => message(`id ${164 + at}`)),
  );
  await processed({ worker });
  assert.equal((await all(log, "output")).length, 200);
  const { window } = await worker.statistics();
  assert.equal(window.appliedOutput, 250n);
  assert.ok(
    window.segments <= 3 && window.droppedBySize >= 8,
    JSON.stringify(window, (_, value) => String(value)),
  );
  await worker.stop();
});

test("processing: publish unknown, applied or not or late: each id once, results true", async () => {
  for (const fault of ["unknown-applied", "unknown-not-applied", "unknown-applied-later", "fenced"] as const) {
    const log = new MemoryMessageLog(1);
    const { worker } = fixture({ log });
    await worker.start();
    log.failNext(0, fault);
    const { from } = await log.append(0, [message("a"), message("a"), message(undefined)]);
    assert.deepEqual(await worker.whenProcessed(from), { kind: "accepted", offset: 0n }, fault);
    assert.deepEqual(await worker.whenProcessed(from + 1n), { kind: "duplicate" }, fault);
    assert.deepEqual(await worker.whenProcessed(from + 2n), { kind: "dead-lettered", offset: 0n }, fault);
    assert.deepEqual(await outputValues(log), ["value of a"], fault);
    await worker.stop();
  }
});

test("[DD4] processing: the acknowledged input moves past duplicates", async () => {
  const { log, worker } = fixture();
  await worker.start();
  await log.append(
    0,
    Array.from({ length: 30 }, () => message("a")),
  );
  await processed({ worker });
  assert.equal((await all(log, "output")).length, 1);
  await worker.stop();
  assert.equal((await log.open(0, "next")).acknowledgedInput, 30n);
});

test("[DD6] processing: a page is one look-up, one publish, one write", async () => {
  const calls: string[] = [];
  const { log, worker } = fixture({
    worker: { page: { messages: 100, bytes: 1 << 20 } },
    seenLog: (inner) => traced(inner, calls, ["read"], (session) => traced(session, calls, ["publish"])),
    seenStores: (inner) => traced(inner, calls, [], (store) => traced(store, calls, ["batch", "getMany"])),
  });
  await log.append(
    0,
    Array.from({ length: 100 }, (_, at) => message(`id ${at}`)),
  );
  await worker.start();
  await processed({ worker });
  assert.equal(calls.filter((name) => name === "publish").length, 1);
  // 100 ids pass six segment boundaries: one write for them all, one for the window's beginning, then those of the segments.
  assert.equal(calls.indexOf("publish") < calls.lastIndexOf("batch"), true);
  assert.equal(
    calls.slice(0, calls.indexOf("publish")).filter((name) => name === "batch").length,
    1,
    "only the beginning before the publish",
  );
  await worker.stop();
});

function traced<Target extends object>(
  target: Target,
  calls: string[],
  names: readonly string[],
  opened?: (made: object) => object,
): Target {
  return new Proxy(target, {
    get: (object, name) => {
      const value: unknown = Reflect.get(object, name, object);
      if (typeof value !== "function") return value;
      return async (...given: unknown[]) => {
        if (names.includes(String(name))) calls.push(String(name));
        const answer: unknown = await (value as (...all: unknown[]) => unknown).apply(object, given);
        return name === "open" && opened !== undefined ? opened(answer as object) : answer;
      };
    },
  });
}

test("[DDD1] order: died between publish and write: the window learns it from the output, nothing twice", async () => {
  const log = new MemoryMessageLog(1);
  const life = new Life(4);
  const first = fixture({ log, life });
  first.worker.start().catch(() => undefined);
  await log.append(0, [message("a")]);
  await life.died;
  assert.equal(life.passed.at(-1), "dedup:published");
  const again = fixture({ log: log.restart(), stores: first.stores.restart("power") });
  await again.worker.start();
  assert.deepEqual(await again.worker.seen([utf8("a")]), [true]);
  await again.log.append(0, [message("a")]);
  await processed(again);
  assert.deepEqual(await outputValues(again.log), ["value of a"]);
  await again.worker.stop();
});

test("[DDD7] two in one page, and one in the page that is looked up while the other is published: one delivery", async () => {
  const { log, worker } = fixture({ worker: { page: { messages: 2, bytes: 1 << 20 } } });
  await log.append(0, [message("a"), message("a"), message("a"), message("b"), message("b"), message("a")]);
  await worker.start();
  await processed({ worker });
  assert.deepEqual(await outputValues(log), ["value of a", "value of b"]);
  await worker.stop();
});

test("[DDD6] UUIDs: any case is the same id; other ids are case-sensitive", async () => {
  const { log, worker } = fixture();
  await worker.start();
  const uuid = "0a1b2c3d-4e5f-4677-8899-aabbccddeeff";
  await log.append(0, [message(uuid), message(uuid.toUpperCase()), message("x"), message("X")]);
  await processed({ worker });
  assert.equal((await all(log, "output")).length, 3);
  await worker.stop();
});

test("[DDD3] misrouted: sent to its partition in the same publication, not published here", async () => {
  const log = new MemoryMessageLog(2);
  const { worker } = fixture({ log });
  await worker.start();
  const ids = Array.from({ length: 20 }, (_, at) => `id ${at}`);
  const here = ids.filter((id) => partitionOfId(utf8(id), 2) === 0);
  await log.append(
    0,
    ids.map((id) => message(id)),
  );
  await until(async () => (await worker.statistics()).lag === 0n, "processed");
  assert.deepEqual(
    await outputValues(log),
    here.map((id) => `value of ${id}`),
  );
  assert.equal((await all(log, "input", 1)).length, 20 - here.length);
  assert.equal((await worker.statistics()).rerouted, 20 - here.length);
  const other = fixture({ log, worker: { partition: 1 } });
  await other.worker.start();
  await processed(other);
  assert.equal((await all(log, "output", 1)).length, 20 - here.length);
  await Promise.all([worker.stop(), other.worker.stop()]);
});

test("[DDD8] missing id: to the dead letters with its reason and origin; the partition goes on", async () => {
  const { log, worker } = fixture();
  await worker.start();
  await log.append(0, [message(undefined, "lost?"), message("a"), message("x".repeat(300))]);
  await processed({ worker });
  const dead = await all(log, "dead-letters");
  assert.deepEqual(
    dead.map((each) => readOrigin(each)),
    [
      { inputOffset: 0n, id: undefined, source: undefined, reason: "no header concord-id" },
      { inputOffset: 2n, id: undefined, source: undefined, reason: "the id has more than 256 bytes" },
    ],
  );
  assert.equal(textOf(dead[0]!.value!), "lost?");
  await worker.stop();
});

test("[DDD8] missing id: passed: published each time; hashed: once per content, also after a rebuild", async () => {
  for (const [missingId, published] of [
    ["pass", 3],
    ["hash", 2],
  ] as const) {
    const log = new MemoryMessageLog(1);
    const first = fixture({ log, worker: { missingId } });
    await first.worker.start();
    await log.append(0, [message(undefined, "x"), message(undefined, "x"), message(undefined, "y")]);
    await processed(first);
    assert.equal((await all(log, "output")).length, published, missingId);
    await first.worker.stop();
    const second = fixture({ log, worker: { missingId } });
    await second.worker.start();
    await log.append(0, [message(undefined, "y")]);
    await processed(second);
    assert.equal((await all(log, "output")).length, published + (missingId === "pass" ? 1 : 0), missingId);
    await second.worker.stop();
  }
});

test("output: headers of the producer stay, those of the pipeline are its own", async () => {
  const { log, worker } = fixture();
  await worker.start();
  const forged = { name: ORIGIN_HEADER, value: new Uint8Array(18).fill(1) };
  const trace = { name: "trace", value: utf8("t") };
  await log.append(0, [{ ...message("a"), headers: [forged, { name: ID_HEADER, value: utf8("a") }, trace] }]);
  await processed({ worker });
  const [out] = await all(log, "output");
  assert.deepEqual(
    out!.headers.map((header) => header.name),
    ["trace", ID_HEADER, ORIGIN_HEADER],
  );
  assert.deepEqual(readOrigin(out!), { inputOffset: 0n, id: utf8("a"), source: undefined, reason: undefined });
  await worker.stop();
});

test("[DD9] lost store: rebuilt from the whole output before anything else", async () => {
  const log = new MemoryMessageLog(1);
  const first = fixture({ log });
  await first.worker.start();
  await log.append(
    0,
    Array.from({ length: 50 }, (_, at) => message(`id ${at}`)),
  );
  await processed(first);
  await first.worker.stop();
  await log.append(
    0,
    Array.from({ length: 50 }, (_, at) => message(`id ${at}`)),
  );
  const second = fixture({ log });
  await second.worker.start();
  assert.equal((await second.worker.statistics()).window.appliedOutput, (await log.bounds("output", 0)).end);
  await processed(second);
  assert.equal((await all(log, "output")).length, 50);
  await second.worker.stop();
});

test("[DDD11] a segment that fails its check: restored from the output; an output that is gone: the partition stops", async () => {
  for (const isTrimmed of [false, true]) {
    const log = new MemoryMessageLog(1);
    const first = fixture({ log });
    await first.worker.start();
    await log.append(
      0,
      Array.from({ length: 40 }, (_, at) => message(`id ${at}`)),
    );
    await processed(first);
    await first.worker.stop();
    const stores = first.stores.restart("process");
    stores.damage("run-000000000001", () => ({ entries: [] }));
    if (isTrimmed) log.trim("output", 0, 8n);
    const second = fixture({ log, stores });
    if (isTrimmed) {
      await assert.rejects(second.worker.start(), { code: "PARTITION_STOPPED", message: /restore the window's folder/ });
      continue;
    }
    await second.worker.start();
    await log.append(0, [message("id 3")]);
    await processed(second);
    assert.equal((await all(log, "output")).length, 40);
    assert.deepEqual((await second.worker.statistics()).window.quarantined, ["run-000000000001"]);
    await second.worker.stop();
  }
});

test("[DDD2] the window is ahead of the output, or behind its start: the partition stops and says what to do", async () => {
  const log = new MemoryMessageLog(1);
  const first = fixture({ log });
  await first.worker.start();
  await log.append(0, [message("a"), message("b")]);
  await processed(first);
  await first.worker.stop();
  const ahead = fixture({ stores: first.stores.restart("process") });
  await assert.rejects(ahead.worker.start(), { code: "PARTITION_STOPPED", message: /from another time/ });
  assert.equal((await ahead.worker.whenStopped()).code, "PARTITION_STOPPED");
  assert.equal(ahead.worker.state.kind, "stopped");
  await assert.rejects(ahead.worker.whenProcessed(0n), { code: "PARTITION_STOPPED" });
  await assert.rejects(ahead.worker.seen([utf8("a")]), { code: "PARTITION_STOPPED" });

  log.skip("output", 0, 5);
  log.trim("output", 0, 5n);
  const behind = fixture({ log, stores: first.stores.restart("process") });
  await assert.rejects(behind.worker.start(), { code: "PARTITION_STOPPED", message: /applied up to output offset 2/ });
});

test("[DDD5] the input does not have the acknowledged offset any more: stops loudly, no jump", async () => {
  const log = new MemoryMessageLog(1);
  await log.append(0, [message("a"), message("b")]);
  log.trim("input", 0, 1n);
  const { worker } = fixture({ log });
  worker.start().catch(() => undefined);
  assert.equal((await worker.whenStopped()).metadata["code"], "OFFSET_OUT_OF_RANGE");
  assert.deepEqual(await outputValues(log), []);
});

test("[DDD4] zombie: another owner has opened: what the old one publishes is refused, it opens again and goes on from there", async () => {
  const log = new MemoryMessageLog(1);
  const { worker } = fixture({ log });
  await worker.start();
  const other = await log.open(0, "other");
  await log.append(0, [message("a"), message("b")]);
  await other.publish({ output: [], deadLetters: [], rerouted: [], acknowledgedInput: 1n });
  await processed({ worker });
  assert.deepEqual(await outputValues(log), ["value of b"], "a was the other owner's");
  await assert.rejects(worker.whenProcessed(0n), { code: "OUTCOME_UNKNOWN", applied: "unknown" });
  await worker.stop();
});

test("[DDD4] fenced: another owner acknowledged just as far: what it made of the message is not known here", async () => {
  const { log, worker } = fixture();
  await worker.start();
  const other = await log.open(0, "other");
  await log.append(0, [message("a")]);
  await other.publish({ output: [], deadLetters: [], rerouted: [], acknowledgedInput: 1n });
  await assert.rejects(worker.whenProcessed(0n), { code: "OUTCOME_UNKNOWN", applied: "unknown" });
  await worker.stop();
});

test("[DD8] the clock steps back: times of what is published do not", async () => {
  const { log, clock, worker } = fixture();
  await worker.start();
  for (const [id, stepMs] of [
    ["a", 0],
    ["b", -60_000],
    ["c", 120_000],
  ] as const) {
    clock.now += stepMs;
    await log.append(0, [message(id)]);
    await processed({ worker });
  }
  const times = (await all(log, "output")).map((each) => readStoredOrigin(each)!.publishedMs);
  assert.deepEqual(
    times,
    times.toSorted((a, b) => a - b),
  );
  assert.ok(times[2]! - times[0]! >= 60_000);
  await worker.stop();
});

test("a store that fails: opened again, nothing lost, results still come", async () => {
  let fails = 2;
  const { log, worker } = fixture({
    seenStores: (inner) => ({
      list: () => inner.list(),
      remove: (name) => inner.remove(name),
      open: async (name) => {
        const store = await inner.open(name);
        const batch = store.batch.bind(store);
        store.batch = async (operations, options) => {
          if (!options.sync && fails-- > 0) throw new ConcordError("STORE_FAILED", "ordered by the test");
          return batch(operations, options);
        };
        return store;
      },
    }),
  });
  await worker.start();
  await log.append(0, [message("a"), message("a")]);
  assert.deepEqual(await worker.whenProcessed(0n), { kind: "accepted", offset: 0n });
  assert.deepEqual(await worker.whenProcessed(1n), { kind: "duplicate" });
  await worker.stop();
});

test("a store that takes no write after a failed one, as level does: the window is opened anew", async () => {
  let failures = 1;
  const { log, worker } = fixture({
    seenStores: (inner) => ({
      list: () => inner.list(),
      remove: (name) => inner.remove(name),
      open: async (name) => {
        const store = await inner.open(name);
        const batch = store.batch.bind(store);
        let isFailed = false;
        store.batch = async (operations, options) => {
          isFailed ||= !options.sync && failures-- > 0;
          if (isFailed) throw new ConcordError("STORE_FAILED", "ordered by the test");
          return batch(operations, options);
        };
        return store;
      },
    }),
  });
  await worker.start();
  await log.append(0, [message("a"), message("a")]);
  assert.deepEqual(await worker.whenProcessed(1n), { kind: "duplicate" });
  await log.append(0, [message("a"), message("b")]);
  assert.deepEqual(await worker.whenProcessed(2n), { kind: "duplicate" });
  assert.deepEqual(await worker.whenProcessed(3n), { kind: "accepted", offset: 2n });
  await worker.stop();
});

test("a store whose failed write is there when it is opened again: what was published is found before the window's end", async () => {
  let failures = 1;
  const { log, worker } = fixture({
    seenStores: (inner) => ({
      list: () => inner.list(),
      remove: (name) => inner.remove(name),
      open: async (name) => {
        const store = await inner.open(name);
        const batch = store.batch.bind(store);
        store.batch = async (operations, options) => {
          await batch(operations, options);
          if (!options.sync && failures-- > 0) throw new ConcordError("STORE_FAILED", "ordered by the test");
        };
        return store;
      },
    }),
  });
  await worker.start();
  await log.append(0, [message("a"), message("a")]);
  assert.deepEqual(await worker.whenProcessed(0n), { kind: "accepted", offset: 0n });
  assert.deepEqual(await worker.whenProcessed(1n), { kind: "duplicate" });
  await worker.stop();
});

test("[DDD4] fenced, and another worker has the partition now: stops, never takes it back", async () => {
  const { log, worker } = fixture();
  await worker.start();
  const other = await log.open(0, "other");
  log.unassign(0);
  await log.append(0, [message("a")]);
  const reason = await worker.whenStopped();
  assert.match(reason.message, /belongs to another worker now/);
  assert.equal((await other.publish({ output: [], deadLetters: [], rerouted: [], acknowledgedInput: 1n })).kind, "published");
});

test("[DDD4] publish unknown, and applied: offsets are found in the logs, not computed from their ends", async () => {
  const { log, worker } = fixture();
  await worker.start();
  await log.append(0, [message(undefined)]);
  await processed({ worker });
  log.failNext(0, "unknown-applied");
  const { from } = await log.append(0, [message("a"), message("b"), message(undefined)]);
  assert.deepEqual(await worker.whenProcessed(from), { kind: "accepted", offset: 0n });
  assert.deepEqual(await worker.whenProcessed(from + 1n), { kind: "accepted", offset: 1n });
  assert.deepEqual(await worker.whenProcessed(from + 2n), { kind: "dead-lettered", offset: 2n });
  assert.equal((await log.bounds("output", 0)).end, 3n, "behind a marker");
  await worker.stop();
});

test("publish unknown: acknowledged, and the output has nothing of it: stops and says so", async () => {
  const log = new MemoryMessageLog(1);
  const { worker } = fixture({
    log,
    seenLog: (inner) =>
      opening(inner, async () => {
        const session = await log.open(0, "worker");
        return {
          ...session,
          publish: async (publication) => {
            await session.publish({ ...publication, output: [] });
            return { kind: "unknown", cause: "ordered by the test" };
          },
        };
      }),
  });
  await worker.start();
  await log.append(0, [message("a")]);
  assert.match((await worker.whenStopped()).message, /input offset 0 of partition 0 is acknowledged, and the output .* nothing of it/);
});

test("[DDD12] results: asked late: there; stop: the waiters are rejected", async () => {
  const { log, worker } = fixture();
  await worker.start();
  await log.append(
    0,
    Array.from({ length: 20 }, (_, at) => message(`id ${at}`)),
  );
  await processed({ worker });
  assert.deepEqual(await worker.whenProcessed(1n), { kind: "accepted", offset: 1n });
  const waiting = assert.rejects(worker.whenProcessed(10_000n), { code: "DRAINING" });
  await worker.stop();
  await waiting;
  await assert.rejects(worker.whenProcessed(10_001n), { code: "DRAINING" });
});

test("[DDD12] waiters: at their limit: OVERLOADED", async () => {
  const { worker } = fixture();
  const waiting: Promise<unknown>[] = [];
  for (let at = 0; at < WAITERS_MAX; at += 1) waiting.push(worker.whenProcessed(BigInt(at)).catch(() => undefined));
  await assert.rejects(worker.whenProcessed(0n), { code: "OVERLOADED" });
  await worker.stop();
  await Promise.all(waiting);
});

test("[DDD12] seen: before it runs, too many, empty ids: refused", async () => {
  const { worker } = fixture();
  await assert.rejects(worker.seen([utf8("a")]), { code: "STARTING" });
  await worker.start();
  await assert.rejects(worker.seen(Array.from({ length: SEEN_IDS_MAX + 1 }, () => utf8("a"))), { code: "LIMIT_EXCEEDED" });
  await assert.rejects(worker.seen([utf8("")]), { code: "MALFORMED_REQUEST" });
  assert.equal((await worker.seen(Array.from({ length: SEEN_IDS_MAX }, () => utf8("a")))).length, SEEN_IDS_MAX);
  await worker.stop();
});

test("offsets without messages: skipped, in input and output", async () => {
  const log = new MemoryMessageLog(1);
  log.skip("input", 0, 3);
  await log.append(0, [message("a")]);
  log.skip("input", 0, 2);
  log.skip("output", 0, 40);
  const { worker } = fixture({ log });
  await worker.start();
  assert.deepEqual(await worker.whenProcessed(3n), { kind: "accepted", offset: 40n });
  await worker.stop();
});

const BAD_OPTIONS: readonly (readonly [string, Parameters<typeof fixture>[0], string])[] = [
  ["no such partition", { worker: { partition: 1 } }, "PARTITION_UNKNOWN"],
  ["no owner", { worker: { owner: "" } }, "MALFORMED_REQUEST"],
  ["an empty page", { worker: { page: { messages: 0, bytes: 1 } } }, "LIMIT_EXCEEDED"],
  ["too large a page", { worker: { page: { messages: 10_001, bytes: 1 } } }, "LIMIT_EXCEEDED"],
  ["too short segments", { worker: { window: { ...OPTIONS.window, idsPerSegment: 15 } } }, "LIMIT_EXCEEDED"],
  ["too many segments", { worker: { window: { ...OPTIONS.window, segmentsMax: 65 } } }, "LIMIT_EXCEEDED"],
  ["too much memory", { worker: { window: { ...OPTIONS.window, idsPerSegment: 16 * 1024 * 1024, segmentsMax: 64 } } }, "LIMIT_EXCEEDED"],
  ["a header without a name", { worker: { idSources: [{ kind: "header", name: "" }] } }, "MALFORMED_REQUEST"],
  ["an empty path", { worker: { idSources: [{ kind: "json", path: [] }] } }, "LIMIT_EXCEEDED"],
  ["no source of ids", { worker: { idSources: [] } }, "LIMIT_EXCEEDED"],
  ["too many sources of ids", { worker: { idSources: Array.from({ length: 9 }, () => ({ kind: "key" as const })) } }, "LIMIT_EXCEEDED"],
];

for (const [what, parts, code] of BAD_OPTIONS) {
  test(`options: ${what}: ${code}`, () => assert.throws(() => fixture(parts), { code }));
}

test("options: at their limits: accepted", () => {
  fixture({ worker: { page: { messages: 10_000, bytes: 1 }, window: { ...OPTIONS.window, idsPerSegment: 16, segmentsMax: 64 } } });
  const large = { ...OPTIONS.window, idsPerSegment: 16 * 1024 * 1024, segmentsMax: 8 };
  fixture({ worker: { window: large } });
  assert.ok(windowMemoryBytes(large) < 3 * 1024 ** 3);
});

const DAY_MS = 24 * 3_600_000;

test("ageing: the clock jumps 400 days ahead for one message, and over a restart: no id is forgotten", async () => {
  const clock = new FastClock();
  let jumpMs = 0;
  clock.nowMs = () => clock.now + jumpMs;
  const ids = Array.from({ length: 40 }, (_, at) => message(`id ${at}`));
  const window = { idsPerSegment: 16, segmentsMax: 8, windowMs: DAY_MS };
  const first = fixture({ worker: { window }, clock });
  await first.log.append(0, ids);
  await first.worker.start();
  await processed(first);
  const { stores, log } = first;
  let worker = first.worker;
  for (const restarts of [false, true]) {
    if (restarts) {
      await worker.stop();
      clock.now += 3_600_000;
    }
    jumpMs = 400 * DAY_MS;
    if (restarts) {
      worker = fixture({ worker: { window }, clock, log, stores }).worker;
      await worker.start();
    }
    await log.append(0, [message(`at the jump, ${restarts}`)]);
    await processed({ worker });
    jumpMs = 0;
    await log.append(0, [message(`after the jump, ${restarts}`), ...ids]);
    await processed({ worker });
    assert.equal((await outputValues(log)).length, ids.length + (restarts ? 4 : 2));
  }
  await worker.stop();
});

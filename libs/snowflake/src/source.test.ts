import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  BORROW_MS_MAX,
  MARK_AHEAD_MS,
  openGuidSource,
  partsOfGuid,
  STEP_BACK_MS_MAX,
  TAKE_COUNT_MAX,
  type IdRange,
  type IdSource,
} from "./index.ts";
import { SettableClock } from "./test/settable-clock.ts";
import { TestMark, type RaisePlan } from "./test/test-mark.ts";

const T = 1_800_000_000_000;
/** Everything that was put off to a later microtask has happened. */
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const lastOf = (ranges: readonly IdRange[]): bigint => ranges.at(-1)!.first + BigInt(ranges.at(-1)!.count) - 1n;

function fixture(plan: RaisePlan = "works") {
  const clock = new SettableClock(T);
  const mark = new TestMark();
  mark.plan = plan;
  return { clock, mark, open: (workerId = 3): IdSource => openGuidSource({ workerId, clock, mark }) };
}

test("source: first id: the mark is durable above it before it leaves (I3)", async () => {
  const { mark, open } = fixture();
  const id = await open().next();
  assert.deepEqual(partsOfGuid(id), { timeMs: T, workerId: 3, sequence: 0 });
  assert.equal(mark.valueMs, T + 1 + MARK_AHEAD_MS);
});

test("source: many ids in one second: the mark is raised ahead of them, not for each", async () => {
  const { clock, mark, open } = fixture();
  const source = open();
  for (let at = 0; at < 1_000; at += 1) {
    await source.next();
    clock.wallMs += 1;
  }
  assert.ok(mark.raises <= 3, `${mark.raises} raises`);
});

test("source: half of the way to the mark used up: raised in the background while ids go out", async () => {
  const { clock, mark, open } = fixture();
  const source = open();
  await source.next();
  clock.wallMs += Math.ceil(MARK_AHEAD_MS / 2) + 1;
  const before = mark.raises;
  await source.next();
  await settle();
  assert.equal(mark.raises, before + 1);
});

test("source: the mark cannot be raised: ids of the millisecond before it leave, those of its own do not (I3)", async () => {
  const { clock, mark } = fixture();
  const source = openGuidSource({ workerId: 3, clock, mark, markAheadMs: 1 });
  await source.next();
  assert.equal(mark.valueMs, T + 2);
  mark.plan = "fails-before";
  clock.wallMs = T + 1;
  assert.equal(partsOfGuid(await source.next()).timeMs, T + 1);
  await settle();
  clock.wallMs = T + 2;
  await assert.rejects(source.next(), { code: "STORE_FAILED" });
});

test("[S5] source: restart at once: starts at the mark without waiting", async () => {
  const { clock, mark, open } = fixture();
  const last = await open().next();
  const floorMs = mark.valueMs!;
  const first = await open().next();
  assert.ok(first > last);
  assert.equal(partsOfGuid(first).timeMs, floorMs);
  assert.equal(clock.slept, 0);
});

test("[S5] source: restart with a clock that stepped back: waits for it or refuses, never below the mark", async () => {
  const { clock, mark, open } = fixture();
  await open().next();
  const floorMs = mark.valueMs!;
  clock.wallMs = floorMs - STEP_BACK_MS_MAX - 1;
  await assert.rejects(open().next(), { code: "CLOCK_UNUSABLE", applied: "no" });
  clock.wallMs = floorMs - STEP_BACK_MS_MAX;
  const id = await open().next();
  assert.equal(partsOfGuid(id).timeMs, floorMs);
  assert.equal(clock.wallMs, floorMs - BORROW_MS_MAX);
});

test("[S4] source: the clock jumps far back while running: CLOCK_UNUSABLE, and ids again when it is back", async () => {
  const { clock, open } = fixture();
  const source = open();
  const first = await source.next();
  clock.wallMs -= 60_000;
  await assert.rejects(source.next(), { code: "CLOCK_UNUSABLE" });
  clock.wallMs += 60_000;
  assert.ok((await source.next()) > first);
});

test("[S4] [S5] source that goes on: the clock falls back by 8 h, also over a restart: ids at once, each above the one before", async () => {
  const { clock, mark } = fixture();
  const open = (): IdSource => openGuidSource({ workerId: 3, clock, mark, behind: "go-on" });
  const source = open();
  const ids = [await source.next()];
  clock.wallMs -= 8 * 3_600_000;
  ids.push(await source.next(), await source.next());
  const again = open();
  for (let at = 0; at < 10_000; at += 1) ids.push(await again.next());
  assert.ok(ids.every((id, at) => at === 0 || id > ids[at - 1]!));
  assert.equal(clock.slept, 0);
});

for (const plan of ["fails-before", "fails-after"] as const) {
  test(`source: raising the mark ${plan}: the call fails, no id leaves, the next one is good`, async () => {
    const { mark, open } = fixture(plan);
    const source = open();
    await assert.rejects(source.next(), { code: "STORE_FAILED" });
    mark.plan = "works";
    const id = await source.next();
    assert.ok(partsOfGuid(id).timeMs < mark.valueMs!);
  });
}

test("[S7] source: the worker id belongs to another source: EPOCH_FENCED for good", async () => {
  const { clock, mark, open } = fixture();
  const source = open();
  await source.next();
  mark.plan = "fenced";
  clock.wallMs += 10 * MARK_AHEAD_MS;
  await assert.rejects(source.next(), { code: "EPOCH_FENCED" });
  mark.plan = "works";
  await assert.rejects(source.next(), { code: "EPOCH_FENCED" });
});

test("source: callers at the same time: all different", async () => {
  const { open } = fixture();
  const source = open();
  const ids = await Promise.all(Array.from({ length: 500 }, () => source.next()));
  assert.equal(new Set(ids).size, 500);
});

test("source: a caller that gives up while it waits: CANCELLED, nothing taken", async () => {
  const { clock, open } = fixture();
  const source = open();
  const first = await source.next();
  clock.wallMs -= STEP_BACK_MS_MAX;
  const controller = new AbortController();
  const waiting = source.take(1, controller.signal);
  controller.abort();
  await assert.rejects(waiting, { code: "CANCELLED", applied: "no" });
  assert.equal(await source.next(), first + 1n);
});

test("[S6] source: more than may be borrowed: the clock is waited for", async () => {
  const { clock, open } = fixture();
  const source = open();
  let last = -1n;
  for (let at = 0; at < 60; at += 1) {
    const ranges = await source.take(TAKE_COUNT_MAX);
    assert.ok(ranges[0]!.first > last);
    last = lastOf(ranges);
    assert.ok(partsOfGuid(last).timeMs <= clock.wallMs + BORROW_MS_MAX);
  }
  assert.ok(clock.slept > 0);
});

/** What happens to one worker: its clock strobes, it makes ids, its mark fails, it crashes and starts again. */
const event = fc.oneof(
  fc.record({ kind: fc.constant("pass" as const), ms: fc.integer({ min: 0, max: 3_000 }) }),
  fc.record({ kind: fc.constant("step" as const), ms: fc.integer({ min: -30_000, max: 30_000 }) }),
  fc.record({ kind: fc.constant("take" as const), count: fc.integer({ min: 1, max: 20_000 }), calls: fc.integer({ min: 1, max: 3 }) }),
  fc.record({ kind: fc.constant("plan" as const), plan: fc.constantFrom<RaisePlan>("works", "works", "fails-before", "fails-after") }),
  fc.record({ kind: fc.constant("crash" as const), during: fc.boolean() }),
);

test("[S1] [S3] [S5] [S8] source: strobing clock, failing mark, crashes: never a repeat, strictly increasing over all restarts", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(fc.integer({ min: 0, max: 1 }), event), { maxLength: 60, size: "max" }), async (events) => {
      const workers = [10, 11].map((workerId) => {
        const { clock, mark, open } = fixture();
        return { workerId, clock, mark, open, source: open(workerId), last: -1n, made: 0 };
      });
      for (const [index, one] of events) {
        const worker = workers[index]!;
        if (one.kind === "pass" || one.kind === "step") worker.clock.wallMs += one.ms;
        if (one.kind === "plan") worker.mark.plan = one.plan;
        if (one.kind === "crash") {
          // Its raise may still arrive at the disk; its answers arrive nowhere.
          if (one.during) worker.source.take(5_000).catch(() => undefined);
          worker.source = worker.open(worker.workerId);
          await settle();
        }
        if (one.kind === "take") {
          const calls = await Promise.allSettled(Array.from({ length: one.calls }, () => worker.source.take(one.count)));
          const ranges = calls.flatMap((call) => (call.status === "fulfilled" ? call.value : []));
          ranges.sort((a, b) => (a.first < b.first ? -1 : 1));
          for (const { first, count } of ranges) {
            assert.ok(first > worker.last, "above everything made before");
            worker.last = first + BigInt(count) - 1n;
            worker.made += count;
            assert.equal(partsOfGuid(first).workerId, worker.workerId);
            assert.equal(partsOfGuid(worker.last).timeMs, partsOfGuid(first).timeMs, "a range stays in its millisecond");
            assert.ok(partsOfGuid(worker.last).timeMs < worker.mark.valueMs!, "the mark is above it");
          }
        }
      }
    }),
    { numRuns: 100 },
  );
});

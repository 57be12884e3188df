// Shares of memory in the order in which they are asked for; who loses one.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ConcordError } from "./errors.ts";
import { silentMetrics } from "./observe.ts";
import { OutputBudget, type OutputShare } from "./output-budget.ts";
import type { Clock } from "./clock.ts";

const STALLED_MS = 100;

class TestClock implements Clock {
  #nowMs = 0;
  #timers = new Set<{ readonly atMs: number; readonly action: () => void }>();
  nowMs = (): number => this.#nowMs;
  nowUs = (): bigint => BigInt(this.#nowMs) * 1000n;
  monotonicMs = (): number => this.#nowMs;
  defer = (action: () => void): void => queueMicrotask(action);
  setTimer(delayMs: number, action: () => void): { cancel(): void } {
    const timer = { atMs: this.#nowMs + delayMs, action };
    this.#timers.add(timer);
    return { cancel: () => void this.#timers.delete(timer) };
  }
  get timers(): number {
    return this.#timers.size;
  }
  advance(ms: number): void {
    this.#nowMs += ms;
    for (const timer of this.#timers) {
      if (timer.atMs > this.#nowMs) continue;
      this.#timers.delete(timer);
      timer.action();
    }
  }
}

interface World {
  readonly clock: TestClock;
  readonly budget: OutputBudget;
  readonly given: string[];
  take(name: string, bytes: number, signal?: AbortSignal): Promise<OutputShare | undefined>;
  settled(): Promise<void>;
}

function world(bytesMax = 100): World {
  const clock = new TestClock();
  const budget = new OutputBudget({ clock, metrics: silentMetrics, bytesMax, stalledMs: STALLED_MS });
  const given: string[] = [];
  const take = async (name: string, bytes: number, signal = new AbortController().signal): Promise<OutputShare | undefined> => {
    const share = await budget.take(bytes, signal);
    if (share !== undefined) given.push(name);
    return share;
  };
  return { clock, budget, given, take, settled: () => new Promise((resolve) => setImmediate(resolve)) };
}

test("output budget: shares below, at and above the limit: given, given, waiting in order until one is given back", async () => {
  const { take, given, settled } = world();
  const first = await take("first", 60);
  const second = await take("second", 40);
  void take("large", 50);
  void take("small", 1);
  await settled();
  assert.deepEqual(given, ["first", "second"]);
  second!.release();
  await settled();
  assert.deepEqual(given, ["first", "second"], "a small share does not overtake a large one for ever");
  first!.release();
  first!.release();
  await settled();
  assert.deepEqual(given, ["first", "second", "large", "small"]);
});

test("output budget: a share turns out smaller or larger: what it takes counts; one larger than all is given alone", async () => {
  const { take, given, settled } = world();
  const first = await take("first", 100);
  void take("second", 60);
  first!.resize(41);
  await settled();
  assert.deepEqual(given, ["first"]);
  first!.resize(40);
  await settled();
  assert.deepEqual(given, ["first", "second"]);
  void take("huge", 1000);
  await settled();
  assert.equal(given.length, 2);
  first!.release();
  await settled();
  assert.equal(given.length, 2);
});

test("output budget: a caller that leaves while it waits: no share, and those behind it go on", async () => {
  const { take, given, settled } = world();
  await take("first", 60);
  const leaving = new AbortController();
  const left = take("left", 80, leaving.signal);
  void take("behind", 40);
  await settled();
  leaving.abort();
  assert.equal(await left, undefined);
  await settled();
  assert.deepEqual(given, ["first", "behind"]);
  assert.equal(await take("late", 1, leaving.signal), undefined);
});

test("[SEC10] output budget: clients that do not read: kept while no other needs the memory, then the longest waiting loses its share", async () => {
  const { take, given, settled, clock } = world();
  const evicted: string[] = [];
  for (const name of ["a", "b"]) {
    const share = await take(name, 50);
    clock.advance(10);
    share!.unread(({ code }) => evicted.push(`${name} ${code}`));
  }
  clock.advance(10 * STALLED_MS);
  assert.deepEqual(evicted, [], "nothing else waits");
  const next = take("c", 50);
  clock.advance(0);
  assert.deepEqual(evicted, ["a OVERLOADED"]);
  await next;
  assert.deepEqual(given, ["a", "b", "c"]);
  assert.equal(clock.timers, 0);
  await settled();
});

test("output budget: a client that takes its share in time: not broken off; the time of the next one begins anew", async () => {
  const { take, clock, settled } = world();
  const evicted: string[] = [];
  const first = await take("first", 100);
  first!.unread(() => evicted.push("first"));
  const second = take("second", 100);
  clock.advance(STALLED_MS - 1);
  first!.release();
  const share = await second;
  share!.unread(() => evicted.push("second"));
  void take("third", 1);
  clock.advance(STALLED_MS - 1);
  assert.deepEqual(evicted, []);
  clock.advance(1);
  await settled();
  assert.deepEqual(evicted, ["second"]);
});

test("output budget: a share that grows: to the limit, by what is needed to twice the limit, and then those that took nothing for longer lose theirs", async () => {
  const { budget, take, clock } = world();
  const evicted: string[] = [];
  const [first, second] = [budget.open(), budget.open()];
  first.unread(({ code }) => evicted.push(`first ${code}`));
  second.unread(() => evicted.push("second"));
  assert.ok(first.grow(60, false) && first.grow(40, false), "at the limit");
  assert.equal(first.grow(1, false), false, "above it");
  assert.ok(second.grow(100, true), "at twice the limit");
  assert.equal(first.grow(1, true), false, "it is the one that took nothing for longest");
  assert.deepEqual(evicted, []);
  assert.ok(second.grow(1, true));
  assert.deepEqual(evicted, ["first OVERLOADED"]);
  second.taken();
  second.release();
  clock.advance(10 * STALLED_MS);
  assert.notEqual(await take("all", 100), undefined);
  assert.deepEqual(evicted, ["first OVERLOADED"]);
  assert.equal(clock.timers, 0);
});

test("output budget: more is held than the limit: the client that took nothing for longest is broken off when its time is over", () => {
  const { budget, clock } = world();
  const evicted: string[] = [];
  const [first, second] = [budget.open(), budget.open()];
  for (const [name, share] of [
    ["first", first],
    ["second", second],
  ] as const) {
    share.unread(() => evicted.push(name));
    assert.ok(share.grow(60, true));
  }
  clock.advance(STALLED_MS - 1);
  first.taken();
  first.unread(() => evicted.push("first"));
  assert.deepEqual(evicted, []);
  clock.advance(1);
  assert.deepEqual(evicted, ["second"], "the first took some");
  clock.advance(10 * STALLED_MS);
  assert.deepEqual(evicted, ["second"], "there is memory");
});

test("output budget: answers that are made already: as many bytes wait as are held, one more is OVERLOADED", async () => {
  const { budget, take } = world();
  const { signal } = new AbortController();
  const held = await take("held", 100);
  const waiting = budget.takeMade(100, signal);
  await assert.rejects(budget.takeMade(1, signal), (thrown: unknown) => thrown instanceof ConcordError && thrown.code === "OVERLOADED");
  void budget.take(1000, signal);
  held!.release();
  assert.notEqual(await waiting, undefined);
});

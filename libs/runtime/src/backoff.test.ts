import assert from "node:assert/strict";
import { test } from "node:test";
import { backoff, backoffMs, type Backoff, type Clock, type Random } from "./index.ts";

const LIMITS = { initialMs: 10, maxMs: 65 };

/** Time passes when `sleepOver` is called. */
function manualClock(): Clock & { sleepOver(): number; pending(): number } {
  let now = 0;
  let timers: { at: number; action: () => void }[] = [];
  return {
    nowMs: () => now,
    nowUs: () => BigInt(now) * 1000n,
    monotonicMs: () => now,
    setTimer(delayMs, action) {
      const timer = { at: now + delayMs, action };
      timers.push(timer);
      return { cancel: () => void (timers = timers.filter((other) => other !== timer)) };
    },
    defer: (action) => action(),
    sleepOver() {
      const [timer] = timers;
      const sleptMs = timer!.at - now;
      now = timer!.at;
      timer!.action();
      return sleptMs;
    },
    pending: () => timers.length,
  };
}

const fraction = (float: number): Random => ({
  float: () => float,
  below: (limit) => limit - 1,
  bytes: (length) => new Uint8Array(length),
});

async function pauses(clock: ReturnType<typeof manualClock>, retry: Backoff, count: number): Promise<number[]> {
  const slept: number[] = [];
  for (let i = 0; i < count; i += 1) {
    const pause = retry.pause();
    slept.push(clock.sleepOver());
    assert.equal(await pause, true);
  }
  return slept;
}

test("backoff: failure after failure: pauses double up to the maximum and stay there", async () => {
  const clock = manualClock();
  assert.deepEqual(await pauses(clock, backoff(clock, LIMITS), 6), [10, 20, 40, 65, 65, 65]);
});

test("backoff: another factor: pauses grow by it", async () => {
  const clock = manualClock();
  assert.deepEqual(await pauses(clock, backoff(clock, { initialMs: 1, maxMs: 1000, factor: 3 }), 4), [1, 3, 9, 27]);
  assert.deepEqual(await pauses(clock, backoff(clock, { initialMs: 7, maxMs: 7, factor: 1 }), 3), [7, 7, 7]);
});

test("backoff: reset after a success: the first pause again", async () => {
  const clock = manualClock();
  const retry = backoff(clock, LIMITS);
  await pauses(clock, retry, 3);
  retry.reset();
  assert.deepEqual(await pauses(clock, retry, 2), [10, 20]);
});

test("backoff: more failures than a power of two can count: still the maximum", () => {
  assert.equal(backoffMs(LIMITS, 0), 0);
  assert.equal(backoffMs(LIMITS, 1), 10);
  assert.equal(backoffMs(LIMITS, 5000), 65);
  assert.equal(backoffMs({ ...LIMITS, factor: 1 }, 5000), 10);
});

test("backoff: limits that would not grow: refused as a bug", () => {
  assert.throws(() => backoffMs({ initialMs: 0, maxMs: 10 }, 1), /pauses do not shrink/);
  assert.throws(() => backoffMs({ initialMs: 11, maxMs: 10 }, 1), /pauses do not shrink/);
  assert.throws(() => backoffMs({ ...LIMITS, factor: 0.5 }, 1), /pauses do not shrink/);
});

test("backoff: jitter: a random fraction of each pause, which grows all the same", async () => {
  const clock = manualClock();
  assert.deepEqual(await pauses(clock, backoff(clock, { ...LIMITS, jitter: fraction(0.5) }), 4), [5, 10, 20, 32.5]);
  assert.deepEqual(await pauses(clock, backoff(clock, { ...LIMITS, jitter: fraction(0) }), 2), [0, 0]);
});

test("backoff: the server asks for a pause: the longer of both, jitter included", async () => {
  const clock = manualClock();
  const retry = backoff(clock, { ...LIMITS, jitter: fraction(0.5) });
  void retry.pause({ atLeastMs: 8 });
  assert.equal(clock.sleepOver(), 8);
  void retry.pause({ atLeastMs: 8 });
  assert.equal(clock.sleepOver(), 10);
});

test("backoff: the pause would end before, at or after the deadline: begun only when before", async () => {
  const clock = manualClock();
  assert.equal(await backoff(clock, LIMITS).pause({ deadlineAtMs: 9 }), false);
  assert.equal(await backoff(clock, LIMITS).pause({ deadlineAtMs: 10 }), false);
  assert.equal(clock.pending(), 0);
  const pause = backoff(clock, LIMITS).pause({ deadlineAtMs: 11 });
  assert.equal(clock.sleepOver(), 10);
  assert.equal(await pause, true);
});

test("backoff: aborted before or during the pause: false at once, no timer left", async () => {
  const clock = manualClock();
  const abort = new AbortController();
  const retry = backoff(clock, LIMITS, abort.signal);
  const pause = retry.pause();
  assert.equal(clock.pending(), 1);
  abort.abort();
  assert.equal(await pause, false);
  assert.equal(await retry.pause(), false);
  assert.equal(clock.pending(), 0);
});

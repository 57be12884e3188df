import assert from "node:assert/strict";
import { test } from "node:test";
import { sleep, type Clock } from "./index.ts";

function manualClock(): Clock & { advance(ms: number): void; pending(): number } {
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
    advance(ms) {
      now += ms;
      for (const timer of timers.filter(({ at }) => at <= now)) timer.action();
    },
    pending: () => timers.length,
  };
}

test("sleep: time passes: resolves and leaves no timer", async () => {
  const clock = manualClock();
  const slept = sleep(clock, 10);
  clock.advance(10);
  await slept;
  assert.equal(clock.pending(), 0);
});

test("sleep: aborted before or while sleeping: resolves at once and leaves no timer", async () => {
  const clock = manualClock();
  const abort = new AbortController();
  const slept = sleep(clock, 1_000, abort.signal);
  abort.abort();
  await slept;
  await sleep(clock, 1_000, abort.signal);
  assert.equal(clock.pending(), 0);
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { runningTimer, type Clock } from "./index.ts";

/** A clock whose timers fire `lateMs` after their time. */
function lateClock(lateMs: number): Clock & { run(): void; readonly timers: number } {
  let nowMs = 0;
  let timers: { readonly atMs: number; readonly action: () => void }[] = [];
  return {
    nowMs: () => nowMs,
    nowUs: () => BigInt(nowMs) * 1000n,
    monotonicMs: () => nowMs,
    setTimer(delayMs, action) {
      const timer = { atMs: nowMs + delayMs, action };
      timers.push(timer);
      return { cancel: () => void (timers = timers.filter((other) => other !== timer)) };
    },
    defer: (action) => action(),
    run() {
      for (let next = timers.shift(); next !== undefined; next = timers.shift()) {
        nowMs = next.atMs + lateMs;
        next.action();
      }
    },
    get timers() {
      return timers.length;
    },
  };
}

function firedAtMs(delayMs: number, lateMs: number): number {
  const clock = lateClock(lateMs);
  let firedMs = Number.NaN;
  runningTimer(clock, delayMs, () => (firedMs = clock.monotonicMs()));
  clock.run();
  return firedMs;
}

test("running timer: a process that runs: the time itself", () => {
  assert.equal(firedAtMs(1_000, 0), 1_000);
  assert.equal(firedAtMs(10, 0), 10);
  assert.equal(firedAtMs(0, 0), 0);
});

test("running timer: a process that gets half of its turns late: the limit is longer, as many turns pass", () => {
  assert.equal(firedAtMs(1_000, 25), 2_000);
});

test("[OPS2] running timer: a process that hardly runs: four times the limit, and one step, at most", () => {
  for (const lateMs of [100, 1_000, 5_000]) assert.ok(firedAtMs(1_000, lateMs) <= 4_000 + 25 + lateMs, `${lateMs}`);
});

test("running timer: cancelled in a later step: nothing is left", () => {
  const clock = lateClock(0);
  const fired: string[] = [];
  const timer = runningTimer(clock, 1_000, () => fired.push("limit"));
  clock.setTimer(500, () => timer.cancel());
  clock.run();
  assert.deepEqual([fired, clock.timers], [[], 0]);
});

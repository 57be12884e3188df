// Time of rules against clocks that step.
import assert from "node:assert/strict";
import { test } from "node:test";
import { BoundedTime } from "./bounded-time.ts";

const HOUR = 3_600_000;
const YEAR = 365 * 24 * HOUR;

function clocks(): { wallMs: number; monotonicMs: number; time: BoundedTime } {
  const state = { wallMs: 50 * YEAR, monotonicMs: 0 };
  const clock = {
    nowMs: () => state.wallMs,
    nowUs: () => BigInt(state.wallMs) * 1000n,
    monotonicMs: () => state.monotonicMs,
    setTimer: () => ({ cancel: () => undefined }),
    defer: () => undefined,
  };
  return Object.assign(state, { time: new BoundedTime(clock) });
}

test("bounded time: clocks that agree: the wall clock's time", () => {
  const state = clocks();
  for (let hour = 1; hour <= 48; hour += 1) {
    state.wallMs += HOUR;
    state.monotonicMs += HOUR;
    assert.equal(state.time.nowMs(), state.wallMs);
  }
});

test("bounded time: monotonic time with fractions, while the wall clock is ahead: whole milliseconds, and none is lost", () => {
  const state = clocks();
  const before = state.time.nowMs();
  state.wallMs += YEAR;
  for (let turn = 0; turn < 1000; turn += 1) {
    state.monotonicMs += 0.3;
    assert.ok(Number.isInteger(state.time.nowMs()));
  }
  assert.ok(Math.abs(state.time.nowMs() - before - 600) <= 1);
});

test("bounded time: the wall clock steps a year ahead: no step, and twice as fast until it is caught up", () => {
  const state = clocks();
  const before = state.time.nowMs();
  state.wallMs += YEAR;
  assert.equal(state.time.nowMs(), before);
  assert.equal(state.time.lagMs(), YEAR);
  state.wallMs += HOUR;
  state.monotonicMs += HOUR;
  assert.equal(state.time.nowMs(), before + 2 * HOUR);
});

test("bounded time: the wall clock steps back, and ahead again: believed back at once, and no further ahead than before", () => {
  const state = clocks();
  const before = state.time.nowMs();
  state.wallMs -= 10 * HOUR;
  assert.equal(state.time.nowMs(), before - 10 * HOUR);
  state.wallMs += 5 * HOUR;
  state.monotonicMs += 5 * HOUR;
  assert.equal(state.time.nowMs(), before - 5 * HOUR);
  state.wallMs += YEAR;
  assert.equal(state.time.nowMs(), before);
});

test("bounded time: an earlier process's time: goes on from there", () => {
  const state = clocks();
  state.time.continueFrom(state.wallMs - HOUR);
  assert.equal(state.time.nowMs(), state.wallMs - HOUR);
  state.time.continueFrom(state.wallMs + HOUR);
  assert.equal(state.time.nowMs(), state.wallMs - HOUR);
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { CLOCK_STEP_MS_MAX } from "./limits.ts";
import { SteadyTime } from "./steady-time.ts";
import { FastClock } from "./test/fixture.ts";

const HOUR_MS = 3_600_000;

class SteppingClock extends FastClock {
  stepMs = 0;
  override nowMs = (): number => this.now + this.stepMs;
}

function steady(): { time: SteadyTime; clock: SteppingClock; held: number[]; startMs: number } {
  const clock = new SteppingClock();
  const held: number[] = [];
  const time = new SteadyTime(clock, (aheadMs) => held.push(aheadMs));
  time.continueFrom(undefined);
  return { time, clock, held, startMs: clock.now };
}

test("steady time: a clock that runs well: its time", () => {
  const { time, clock, held } = steady();
  for (let at = 0; at < 100; at += 1) {
    clock.now += 7_777.25;
    assert.equal(time.now(), Math.floor(clock.now));
  }
  assert.deepEqual(held, []);
});

test("steady time: a step at the limit is followed; one above it is said, and held to the limit", () => {
  const { time, clock, held, startMs } = steady();
  clock.stepMs = CLOCK_STEP_MS_MAX;
  assert.equal(time.now(), startMs + CLOCK_STEP_MS_MAX);
  assert.deepEqual(held, []);
  clock.stepMs += 400 * 24 * HOUR_MS;
  assert.equal(time.now(), startMs + CLOCK_STEP_MS_MAX);
  assert.equal(time.now(), startMs + CLOCK_STEP_MS_MAX);
  assert.deepEqual(held, [400 * 24 * HOUR_MS]);
});

test("steady time: the clock stays ahead: followed at twice the speed at most", () => {
  const { time, clock, startMs } = steady();
  clock.stepMs = 48 * HOUR_MS;
  time.now();
  for (let hours = 1; hours <= 24; hours += 1) {
    clock.now += HOUR_MS;
    assert.equal(time.now(), startMs + CLOCK_STEP_MS_MAX + 2 * hours * HOUR_MS);
  }
  clock.now += 48 * HOUR_MS;
  for (let at = 0; at < 48; at += 1) time.now();
  assert.ok(time.now() <= clock.nowMs());
});

test("steady time: the clock is set back, or is behind an earlier process: stands still, then goes on with it", () => {
  const { time, clock, startMs } = steady();
  clock.stepMs = -2 * HOUR_MS;
  clock.now += HOUR_MS;
  assert.equal(time.now(), startMs);
  clock.now += 2 * HOUR_MS;
  assert.equal(time.now(), clock.nowMs());
  time.continueFrom(clock.nowMs() + 5);
  assert.equal(time.now(), clock.nowMs() + 5);
});

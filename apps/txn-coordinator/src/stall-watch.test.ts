import assert from "node:assert/strict";
import { test } from "node:test";
import { silentLog, type Clock, type LogFields, type Timer } from "@concord/runtime";
import { STALL_LOG_EVERY_MS, STALL_LOOK_EVERY_MS, STALL_MS } from "./limits.ts";
import { StallWatch } from "./stall-watch.ts";

/** Its timers run late by as much as the loop stands still. */
class StallingClock {
  nowMs = 0;
  #due: { readonly atMs: number; readonly action: () => void } | undefined;

  readonly clock: Clock = {
    nowMs: () => this.nowMs,
    nowUs: () => BigInt(this.nowMs) * 1_000n,
    monotonicMs: () => this.nowMs,
    setTimer: (delayMs, action): Timer => {
      this.#due = { atMs: this.nowMs + delayMs, action };
      return { cancel: () => (this.#due = undefined) };
    },
    defer: (action) => action(),
  };

  get isWatched(): boolean {
    return this.#due !== undefined;
  }

  /** Runs the next timer so much too late. */
  turn(lateMs: number): void {
    const due = this.#due!;
    this.#due = undefined;
    this.nowMs = due.atMs + lateMs;
    due.action();
  }
}

function watched(): { readonly loop: StallingClock; readonly watch: StallWatch; readonly seconds: number[]; readonly said: LogFields[] } {
  const [loop, seconds, said] = [new StallingClock(), [] as number[], [] as LogFields[]];
  const metrics = { count: () => {}, gauge: () => {}, observe: (_: string, value: number) => void seconds.push(value) };
  const log = { ...silentLog, warn: (_: string, fields: LogFields = {}) => void said.push(fields) };
  const watch = new StallWatch({ clock: loop.clock, log, metrics });
  watch.start();
  return { loop, watch, seconds, said };
}

test("[TX33] stalls: pauses up to one beat: nothing is measured and nothing said", () => {
  const { loop, seconds, said } = watched();
  for (const lateMs of [0, 1, STALL_MS, 0]) loop.turn(lateMs);
  assert.deepEqual([seconds, said], [[], []]);
});

test("[TX33] stalls: each longer pause is measured; the log says how many and the longest, once in a while", () => {
  const { loop, watch, seconds, said } = watched();
  loop.turn(120);
  assert.deepEqual(said, [{ stalls: 1, longestMs: 120 }]);
  loop.turn(80);
  loop.turn(300);
  assert.deepEqual(seconds, [0.12, 0.08, 0.3]);
  assert.equal(said.length, 1);
  for (let passedMs = 0; passedMs < STALL_LOG_EVERY_MS; passedMs += STALL_LOOK_EVERY_MS) loop.turn(0);
  assert.deepEqual(said.slice(1), [{ stalls: 2, longestMs: 300 }]);
  watch.stop();
  assert.equal(loop.isWatched, false);
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { nodeClock } from "./index.ts";

const TIMERS = 400;
const DELAY_MS_MAX = 40;

test("timer: none is early by the monotonic clock: what waits for a time finds that it has come", async () => {
  const early: string[] = [];
  const due = Array.from({ length: TIMERS }, (_, at) => {
    const delayMs = 1 + (at % DELAY_MS_MAX) + (at % 7) / 7;
    const atMs = nodeClock.monotonicMs() + delayMs;
    return new Promise<void>((resolve) => {
      nodeClock.setTimer(delayMs, () => {
        const leftMs = atMs - nodeClock.monotonicMs();
        if (leftMs > 0) early.push(`${delayMs} ms: ${leftMs} ms early`);
        resolve();
      });
    });
  });
  await Promise.all(due);
  assert.deepEqual(early, []);
});

test("timer: cancelled: never", async () => {
  let fired = 0;
  const timers = [0, 1, 5].map((delayMs) => nodeClock.setTimer(delayMs, () => (fired += 1)));
  for (const timer of timers) timer.cancel();
  await new Promise<void>((resolve) => void nodeClock.setTimer(10, resolve));
  assert.equal(fired, 0);
});

test("defer: this turn: after every reaction of what is settled, before any event; next turn: after it", async () => {
  const order: string[] = [];
  await new Promise<void>((resolve) => {
    setImmediate(() => {
      nodeClock.defer(() => {
        order.push("next turn");
        resolve();
      });
      nodeClock.defer(() => order.push("this turn"), "this");
      void Promise.resolve()
        .then(() => order.push("reaction"))
        .then(() => nodeClock.defer(() => order.push("this turn, asked for by a reaction"), "this"))
        .then(() => order.push("reaction to it"));
      setImmediate(() => order.push("another event"));
    });
  });
  assert.deepEqual(order, ["reaction", "reaction to it", "this turn", "this turn, asked for by a reaction", "next turn"]);
});

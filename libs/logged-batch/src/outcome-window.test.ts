import assert from "node:assert/strict";
import { test } from "node:test";
import { timestampUsOf, type TimeId } from "@concord/runtime";
import { IDEMPOTENCY_ENTRIES_MAX, IDEMPOTENCY_WINDOW_MS } from "./limits.ts";
import { OutcomeWindow, type KnownBatch } from "./outcome-window.ts";
import { ManualClock } from "./test/memory-ring.ts";

const idOf = (at: number): TimeId => at.toString(16).padStart(32, "0") as TimeId;
const failed = (): KnownBatch => ({ timestampUs: timestampUsOf(1n), digest: "d", state: { kind: "failed" } });
const running = (): KnownBatch => ({
  timestampUs: timestampUsOf(1n),
  digest: "d",
  state: { kind: "running", result: new Promise(() => undefined) },
});

test("outcome window: entries at the limit: all known; one more: the oldest is forgotten", () => {
  const window = new OutcomeWindow(new ManualClock());
  for (let at = 0; at < IDEMPOTENCY_ENTRIES_MAX; at += 1) window.add(idOf(at), failed());
  assert.notEqual(window.find(idOf(0)), undefined);
  window.add(idOf(IDEMPOTENCY_ENTRIES_MAX), failed());
  assert.equal(window.find(idOf(0)), undefined);
  assert.notEqual(window.find(idOf(1)), undefined);
});

test("outcome window: older than the window: forgotten, unless it still runs", async () => {
  const clock = new ManualClock();
  const window = new OutcomeWindow(clock);
  window.add(idOf(1), failed());
  window.add(idOf(2), running());
  await clock.advance(IDEMPOTENCY_WINDOW_MS - 1);
  assert.notEqual(window.find(idOf(1)), undefined);
  await clock.advance(1);
  assert.equal(window.find(idOf(1)), undefined);
  assert.notEqual(window.find(idOf(2)), undefined);
});

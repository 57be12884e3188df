// Windows that forget by number before their time.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { PartitionStatistics } from "@concord/dedup";
import { silentLog, type Clock, type Log } from "@concord/runtime";
import { WINDOW_SHORT_LOG_EVERY_MS } from "../limits.ts";
import { WindowWatch } from "./window-watch.ts";

const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;

function watching(windowMaxAgeMs: number) {
  let nowMs = 0;
  const warnings: { readonly text: string; readonly facts: unknown }[] = [];
  const clock: Clock = {
    nowMs: () => nowMs,
    nowUs: () => BigInt(nowMs) * 1000n,
    monotonicMs: () => nowMs,
    setTimer: () => ({ cancel: () => undefined }),
    defer: (action) => action(),
  };
  const log: Log = { ...silentLog, warn: (text, facts) => void warnings.push({ text, facts }) };
  const watch = new WindowWatch({ windowMaxAgeMs, clock, log });
  const see = (partition: number, of: Partial<PartitionStatistics["window"]>): boolean =>
    watch.isShort({ partition, window: { ...WINDOW, ...of } });
  return { see, warnings, advance: (ms: number) => void (nowMs += ms) };
}

const WINDOW: PartitionStatistics["window"] = {
  ids: 4_000_000,
  segments: 16,
  windowMs: 10 * MINUTE_MS,
  diskBytes: 0,
  memoryBytes: 0,
  appliedOutput: 0n,
  droppedBySize: 1,
  droppedByTime: 0,
  quarantined: [],
};

test("window watch: 4 M ids are ten minutes at this rate, 28 days are wanted: said, with the ids that it would take", () => {
  const { see, warnings } = watching(28 * DAY_MS);
  assert.equal(see(3, {}), true);
  assert.match(warnings[0]!.text, /holds less than windowMaxAgeMs/);
  const idsNeeded = 4_000_000 * 28 * 24 * 6;
  assert.deepEqual(warnings[0]!.facts, { partition: 3, windowMs: 600_000, windowMaxAgeMs: 28 * DAY_MS, ids: 4_000_000, idsNeeded });
});

test("window watch: a window that only began, one that reaches as far as wanted, one that promises no time: nothing is said", () => {
  const { see, warnings } = watching(DAY_MS);
  assert.equal(see(0, { droppedBySize: 0 }), false);
  assert.equal(see(0, { windowMs: DAY_MS }), false);
  assert.equal(see(0, { windowMs: DAY_MS - 1 }), true);
  assert.equal(warnings.length, 1);
  const timeless = watching(0);
  assert.equal(timeless.see(0, { windowMs: 1 }), false);
  assert.equal(timeless.warnings.length, 0);
});

test("window watch: it stays short: said once an hour for each partition, and at once when it is short again", () => {
  const { see, warnings, advance } = watching(DAY_MS);
  for (const partition of [0, 1, 0, 1]) assert.equal(see(partition, {}), true);
  assert.equal(warnings.length, 2);
  advance(WINDOW_SHORT_LOG_EVERY_MS - 1);
  see(0, {});
  assert.equal(warnings.length, 2);
  advance(1);
  see(0, {});
  assert.equal(warnings.length, 3);
  see(0, { windowMs: DAY_MS });
  see(0, {});
  assert.equal(warnings.length, 4);
});

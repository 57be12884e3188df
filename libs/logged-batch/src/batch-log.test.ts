// The holder's steps over its store.
import assert from "node:assert/strict";
import { test } from "node:test";
import { timestampUsOf, toHex, type TimeId } from "@concord/runtime";
import { encodeEntry, encodeLetter, entryKey, type BatchEntry } from "./batch-entry.ts";
import { BatchLog } from "./batch-log.ts";
import { LOG_CALL_ENTRIES_MAX, PENDING_ENTRIES_MAX } from "./limits.ts";
import { checksum, ManualClock } from "./test/memory-ring.ts";

const idOf = (at: number): TimeId => `0190000000007000800000${at.toString(16).padStart(10, "0")}` as TimeId;
const entryOf = (at: number, change: Partial<BatchEntry> = {}): Uint8Array => {
  const entry = {
    id: idOf(at),
    coordinator: "node-1",
    createdMs: 1000 - at,
    timestampUs: timestampUsOf(7n),
    holders: ["node-2"],
    rowCount: 1,
  };
  return encodeEntry({ ...entry, mutations: [Uint8Array.of(1, 2)], ...change }, checksum);
};
const opened = (): BatchLog => new BatchLog(checksum, new ManualClock());

test("[LBD2] put: durable before answered, a repeated one too", () => {
  const log = opened();
  for (let time = 0; time < 2; time += 1) {
    const { persist } = log.put([entryOf(1)]).run([]);
    assert.deepEqual(
      persist.map(({ kind, key }) => [kind, toHex(key)]),
      [["put", toHex(entryKey(idOf(1)))]],
    );
  }
  assert.equal(log.size, 1);
});

test("[LBD8] put: the same id with other rows or timestamp: IDEMPOTENCY_MISMATCH, none of the call is kept", () => {
  const log = opened();
  log.put([entryOf(1)]).run([]);
  for (const change of [{ timestampUs: timestampUsOf(8n) }, { mutations: [Uint8Array.of(1, 3)] }]) {
    assert.throws(() => log.put([entryOf(2), entryOf(1, change)]).run([]), { code: "IDEMPOTENCY_MISMATCH" });
  }
  assert.equal(log.put([entryOf(1, { coordinator: "node-3", createdMs: 9, holders: [] })]).run([]).persist.length, 1);
  assert.equal(log.size, 1);
});

test("[LB7] remove: an unknown id: nothing to do, no error", () => {
  assert.deepEqual(
    opened()
      .remove([idOf(1)])
      .run([]).persist,
    [],
  );
});

test("pending: oldest first by creation time", () => {
  const log = opened();
  log.put([entryOf(1), entryOf(2), entryOf(3)]).run([]);
  assert.deepEqual(
    log.pending().map((pending) => pending.id),
    [idOf(3), idOf(2), idOf(1)],
  );
});

test("limits: entries held: at the limit kept, one more OVERLOADED, room again after a removal", () => {
  const log = opened();
  for (let at = 0; at < PENDING_ENTRIES_MAX; at += LOG_CALL_ENTRIES_MAX) {
    log.put(Array.from({ length: LOG_CALL_ENTRIES_MAX }, (_, next) => entryOf(at + next))).run([]);
  }
  const more = log.put([entryOf(PENDING_ENTRIES_MAX)]);
  assert.throws(() => more.run([]), { code: "OVERLOADED", applied: "no" });
  log.remove([idOf(0)]).run([]);
  assert.equal(more.run([]).persist.length, 1);
});

test("limits: entries and ids of one call: one more than allowed: MALFORMED_REQUEST", () => {
  const log = opened();
  const ids = Array.from({ length: LOG_CALL_ENTRIES_MAX + 1 }, (_, at) => idOf(at));
  assert.throws(() => log.put(ids.map((_, at) => entryOf(at))), { code: "MALFORMED_REQUEST" });
  assert.throws(() => log.remove(ids), { code: "MALFORMED_REQUEST" });
});

test("[LBD10] format version 1: golden bytes of entry and dead letter", () => {
  assert.equal(
    toHex(entryOf(1)),
    "019a4726b901900000000070008000000000000001066e6f64652d3100000000000003e7000000000000000701066e6f64652d320101020102",
  );
  const letter = encodeLetter({ id: idOf(1), reason: "EXPIRED", setAsideMs: 5, entry: Uint8Array.of(9) }, checksum);
  assert.equal(toHex(letter), "0172b15f96000000000000000507455850495245440109");
});

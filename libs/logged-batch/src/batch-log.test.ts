// The holder's steps over its store.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { StoreEffects } from "@concord/ports";
import { openRow, storedRowKey } from "@concord/quorum";
import { decodeImage, encodeMutation, encodeRowKey } from "@concord/rows";
import { timestampUsOf, toHex, type TimeId } from "@concord/runtime";
import { encodeEntry, encodeLetter, entryKey, type BatchEntry } from "./batch-entry.ts";
import { BatchLog } from "./batch-log.ts";
import type { BatchLogWrite, BatchLogWritten } from "./batch-node.ts";
import { GC_GRACE_MS, LOG_CALL_ENTRIES_MAX, PENDING_ENTRIES_MAX } from "./limits.ts";
import { checksum, insert, ManualClock } from "./test/memory-ring.ts";

const idOf = (at: number): TimeId => `0190000000007000800000${at.toString(16).padStart(10, "0")}` as TimeId;
const mutationsOf = (value: string, ...partitions: string[]): Uint8Array[] =>
  partitions.map((partition) => encodeMutation(insert(partition, value, timestampUsOf(7n))));
const entryOf = (at: number, change: Partial<BatchEntry> = {}): Uint8Array => {
  const entry = {
    id: idOf(at),
    coordinator: "node-1",
    createdMs: 1000 - at,
    timestampUs: timestampUsOf(7n),
    holders: ["node-2"],
    rowCount: 1,
  };
  return encodeEntry({ ...entry, mutations: mutationsOf("v1", "p1"), ...change }, checksum);
};
const NOTHING: BatchLogWrite = { entries: [], decided: [], removed: [] };
const put = (log: BatchLog, ...entries: Uint8Array[]): StoreEffects<BatchLogWritten> => log.write({ ...NOTHING, entries }).run([]);
const removed = (log: BatchLog, ...ids: TimeId[]): StoreEffects<BatchLogWritten> => log.write({ ...NOTHING, removed: ids }).run([]);
const opened = (): BatchLog => new BatchLog(checksum, new ManualClock());

test("[LBD2] put: durable before answered, a repeated one too", () => {
  const log = opened();
  for (let time = 0; time < 2; time += 1) {
    const { persist, reply } = put(log, entryOf(1));
    assert.deepEqual(
      persist.map(({ kind, key }) => [kind, toHex(key)]),
      [["put", toHex(entryKey(idOf(1)))]],
    );
    assert.deepEqual(reply.results, ["kept"]);
  }
  assert.equal(log.size, 1);
});

test("[LBD8] put: the same id with other rows or timestamp: not kept; the others of the call are", () => {
  const log = opened();
  put(log, entryOf(1));
  for (const change of [{ timestampUs: timestampUsOf(8n) }, { mutations: mutationsOf("v2", "p1") }]) {
    assert.deepEqual(put(log, entryOf(2), entryOf(1, change)).reply.results, ["kept", "mismatch"]);
  }
  assert.deepEqual(put(log, entryOf(1, { coordinator: "node-3", createdMs: 9, holders: [] })).reply.results, ["kept"]);
  assert.equal(log.size, 2);
});

test("[LB7] remove: an unknown id: nothing to do, no error", () => {
  assert.deepEqual(removed(opened(), idOf(1)).persist, []);
});

/** Runs a write over a store with nothing but the entries in it. */
function decide(log: BatchLog, stored: ReadonlyMap<string, Uint8Array>, ...ids: TimeId[]): StoreEffects<BatchLogWritten> {
  const step = log.write({ ...NOTHING, decided: ids });
  return step.run(step.load.map((key) => stored.get(toHex(key))));
}

test("[LB5] decide: the rows of all decided batches are merged in one write, later images of a row on earlier ones", () => {
  const log = opened();
  const entries = [entryOf(1, { mutations: mutationsOf("a", "p1", "p2") }), entryOf(2, { mutations: mutationsOf("b", "p2", "p3") })];
  put(log, ...entries);
  const keys = ["p1", "p2", "p3"].map((partition) => encodeRowKey(insert(partition, "", timestampUsOf(7n)).key));
  assert.equal(log.undecided.at([keys[1]!]).size, 2);
  const stored = new Map(entries.map((entry, at) => [toHex(entryKey(idOf(at + 1))), entry]));
  const { persist, reply } = decide(log, stored, idOf(1), idOf(2), idOf(1));
  assert.deepEqual(reply.applied, [true, true, true]);
  // the last write of a key stands for all
  const written = new Map(persist.map((one) => [toHex(one.key), one.kind === "put" ? cellOf(one.value) : "deleted"]));
  assert.deepEqual(
    [...written],
    keys.map((key, at) => [toHex(storedRowKey(key)), ["a", "b", "b"][at]]),
  );
  assert.equal(log.undecided.at(keys).size, 0);
  assert.equal(decide(log, stored, idOf(1)).persist.length, 0, "merged once");
});

const cellOf = (stored: Uint8Array): unknown => decodeImage(openRow(stored, checksum).image).cells.get("v")?.value?.value;

test("[LB5] decide: a batch that is not held: not applied, nothing is written", () => {
  const { persist, reply } = decide(opened(), new Map(), idOf(1));
  assert.deepEqual([persist.length, reply.applied], [0, [false]]);
});

test("[LB5] decide: a stored row fails its check: quarantined; the others are merged and shown, the batch stays", () => {
  const log = opened();
  const entry = entryOf(1, { mutations: mutationsOf("a", "p1", "p2") });
  put(log, entry);
  const spoilt = storedRowKey(encodeRowKey(insert("p1", "", timestampUsOf(7n)).key));
  const stored = new Map([
    [toHex(entryKey(idOf(1))), entry],
    [toHex(spoilt), Uint8Array.of(1, 2, 3)],
  ]);
  const { persist, reply } = decide(log, stored, idOf(1));
  assert.deepEqual([persist.length, reply.applied, log.size], [2, [false], 1]);
  assert.equal(log.undecided.at([spoilt.slice(1)]).size, 0, "reads of the other rows do not wait");
  stored.delete(toHex(spoilt));
  assert.deepEqual(decide(log, stored, idOf(1)).reply.applied, [true]);
});

test("[LBD15] undecided rows: found by key and by range; forgotten with the batch", () => {
  const log = opened();
  put(log, entryOf(1, { mutations: mutationsOf("a", "p1", "p3") }));
  const key = (partition: string): Uint8Array => encodeRowKey(insert(partition, "", timestampUsOf(7n)).key);
  const sizes = [log.undecided.at([key("p1")]), log.undecided.at([key("p2")]), log.undecided.between(key("p1"), key("p3"))];
  assert.deepEqual(
    sizes.map(({ size }) => size),
    [1, 0, 1],
  );
  assert.equal(log.undecided.between(key("p2"), key("p3")).size, 0, "the end is excluded");
  removed(log, idOf(1));
  assert.equal(log.undecided.at([key("p1")]).size, 0);
});

test("pending: oldest first by creation time", () => {
  const log = opened();
  put(log, entryOf(1), entryOf(2), entryOf(3));
  assert.deepEqual(
    log.pending().map((pending) => pending.id),
    [idOf(3), idOf(2), idOf(1)],
  );
});

test("limits: entries held: at the limit kept, one more full, kept again after a removal", () => {
  const log = opened();
  for (let at = 0; at < PENDING_ENTRIES_MAX; at += LOG_CALL_ENTRIES_MAX) {
    put(log, ...Array.from({ length: LOG_CALL_ENTRIES_MAX }, (_, next) => entryOf(at + next)));
  }
  const more = entryOf(PENDING_ENTRIES_MAX);
  assert.deepEqual(put(log, more).reply.results, ["full-entries"]);
  assert.deepEqual(put(log, entryOf(1)).reply.results, ["kept"], "a held one takes nothing");
  removed(log, idOf(0));
  assert.deepEqual(put(log, more).reply.results, ["kept"]);
});

test("limits: entries and ids of one call: none, and one more than allowed: MALFORMED_REQUEST", () => {
  const log = opened();
  const ids = Array.from({ length: LOG_CALL_ENTRIES_MAX + 1 }, (_, at) => idOf(at));
  const entries = ids.map((_, at) => entryOf(at));
  for (const request of [{ entries }, { decided: ids }, { removed: ids }, {}]) {
    assert.throws(() => log.write({ ...NOTHING, ...request }), { code: "MALFORMED_REQUEST" });
  }
});

test("[LBD10] format version 1: golden bytes of entry and dead letter", () => {
  assert.equal(
    toHex(entryOf(1, { mutations: [Uint8Array.of(1, 2)] })),
    "019a4726b901900000000070008000000000000001066e6f64652d3100000000000003e7000000000000000701066e6f64652d320101020102",
  );
  const letter = encodeLetter({ id: idOf(1), reason: "EXPIRED", setAsideMs: 5, entry: Uint8Array.of(9) }, checksum);
  assert.equal(toHex(letter), "0172b15f96000000000000000507455850495245440109");
});

test("[LBD6] a deletion as new as a batch is forgotten: not kept, and held ones are not merged; forced by an operator: both", () => {
  const forgotten = { newestUs: timestampUsOf(0n) };
  const log = new BatchLog(checksum, new ManualClock(), forgotten);
  const three = { holders: ["node-1", "node-2", "node-3"] };
  put(log, entryOf(1, three));
  forgotten.newestUs = timestampUsOf(7n);
  assert.deepEqual(put(log, entryOf(2, three), entryOf(3, { ...three, timestampUs: timestampUsOf(8n) })).reply.results, [
    "expired",
    "kept",
  ]);
  const decide = (): StoreEffects<BatchLogWritten> => {
    const step = log.write({ ...NOTHING, decided: [idOf(1)] });
    return step.run(step.load.map(() => undefined));
  };
  assert.deepEqual([decide().persist, decide().reply.applied], [[], [false]]);
  // As `revive` writes it, long after its timestamp.
  assert.deepEqual(put(log, entryOf(1, { createdMs: GC_GRACE_MS + 1001 })).reply.results, ["kept"]);
  assert.deepEqual(decide().reply.applied, [true]);
});

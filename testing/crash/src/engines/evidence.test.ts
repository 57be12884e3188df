// What counts as a fault that reached a load, and what does not.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Evidence, signsOf } from "./evidence.ts";

/** A fault of a broker of three that no load noticed, as runs had it. */
const NOTHING: Evidence = {
  loads: [{ name: "messages", gapMs: 4_300, calmGapMs: 3_600, unanswered: 0 }],
  unread: { connections: 0, of: 5, bytes: 0 },
  moved: { partitions: 0, ofPartitions: 0, coordinated: 0, ofCoordinated: 0 },
};

const withLoad = (more: object): Evidence => ({ ...NOTHING, loads: [{ ...NOTHING.loads[0]!, ...more }] });

test("fault: nothing stood still, failed, waited or moved: no sign", () => {
  assert.deepEqual(signsOf(NOTHING), []);
  assert.deepEqual(signsOf({ ...NOTHING, unread: undefined, moved: undefined }), []);
  assert.deepEqual(signsOf({ loads: [], unread: undefined, moved: undefined }), []);
});

test("fault: a load stood still for twice its calm gap, and 2 s at least: the sign has both figures", () => {
  assert.deepEqual(signsOf(withLoad({ gapMs: 7_199 })), []);
  assert.deepEqual(signsOf(withLoad({ gapMs: 7_200 })), ["messages stood still for 7.2 s (before all faults 3.6 s)"]);
  assert.deepEqual(signsOf(withLoad({ calmGapMs: 100, gapMs: 1_999 })), []);
  assert.equal(signsOf(withLoad({ calmGapMs: 100, gapMs: 2_000 })).length, 1);
});

test("fault: one operation ended without an answer: the sign names the load", () => {
  assert.deepEqual(signsOf(withLoad({ unanswered: 1 })), ["1 of messages ended without an answer"]);
});

test("fault: requests that the node never read: the sign says on how many connections", () => {
  const signs = signsOf({ ...NOTHING, unread: { connections: 2, of: 5, bytes: 700 } });
  assert.deepEqual(signs, ["700 bytes of requests unread on 2 of 5 connections of the services"]);
});

test("fault: leaders or coordinators moved: one of either is a sign", () => {
  const moved = { partitions: 3, ofPartitions: 4, coordinated: 0, ofCoordinated: 1 };
  const text = "3 of 4 loaded partitions and 0 of 1 transactional ids moved to other brokers";
  assert.deepEqual(signsOf({ ...NOTHING, moved }), [text]);
  assert.equal(signsOf({ ...NOTHING, moved: { ...moved, partitions: 0, coordinated: 1 } }).length, 1);
  assert.equal(signsOf({ ...NOTHING, moved: { ...moved, partitions: 0 } }).length, 0);
});

// What one coordinator writes to one holder, and when. Time moves by hand.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ConcordError, type TimeId } from "@concord/runtime";
import type { BatchLogWrite, BatchLogWritten } from "./batch-node.ts";
import { HolderLane } from "./holder-lane.ts";
import { CALL_BYTES_TARGET, DECISION_DELAY_MS, LOG_CALL_ENTRIES_MAX, REMOVAL_DELAY_MS } from "./limits.ts";
import { ManualClock, settle } from "./test/memory-ring.ts";

const idOf = (at: number): TimeId => `0190000000007000800000${at.toString(16).padStart(10, "0")}` as TimeId;
const entry = Uint8Array.of(1);

class Fixture {
  readonly clock = new ManualClock();
  readonly calls: BatchLogWrite[] = [];
  readonly failures: Error[] = [];
  answer: (request: BatchLogWrite) => Promise<BatchLogWritten> = async ({ entries, decided }) => ({
    results: entries.map(() => "kept"),
    applied: decided.map(() => true),
  });
  readonly lane: HolderLane;

  constructor() {
    const batchLog = {
      write: (request: BatchLogWrite): Promise<BatchLogWritten> => {
        this.calls.push(request);
        return this.answer(request);
      },
    };
    const rows = { reachable: true, applyRows: () => Promise.reject(new Error("rows go through the log")) };
    const node = { name: "node-1", batchLog, rows, want: () => undefined };
    this.lane = new HolderLane({ node, clock: this.clock, timeoutMs: 1000, onFailed: (error) => this.failures.push(error) });
  }

  /** Entries, decided and removed ids of each call. */
  get counts(): number[][] {
    return this.calls.map(({ entries, decided, removed }) => [entries.length, decided.length, removed.length]);
  }
}

test("lane: entries of one turn leave in one call, with the decisions and removals that waited", async () => {
  const fixture = new Fixture();
  const { lane } = fixture;
  void lane.decide(idOf(1), 1);
  lane.remove(idOf(2));
  await Promise.all([lane.put(idOf(3), entry), lane.put(idOf(4), entry)]);
  assert.deepEqual(fixture.calls, [{ entries: [entry, entry], decided: [idOf(1)], removed: [idOf(2)] }]);
});

test("lane: no entries follow: decisions leave after their delay, removals after theirs", async () => {
  const fixture = new Fixture();
  const decided = fixture.lane.decide(idOf(1), 1);
  await fixture.clock.advance(DECISION_DELAY_MS - 1);
  assert.deepEqual(fixture.counts, []);
  await fixture.clock.advance(1);
  assert.equal(await decided, true);
  fixture.lane.remove(idOf(1));
  await fixture.clock.advance(REMOVAL_DELAY_MS - 1);
  assert.deepEqual(fixture.counts, [[0, 1, 0]]);
  await fixture.clock.advance(1);
  assert.deepEqual(fixture.counts, [
    [0, 1, 0],
    [0, 0, 1],
  ]);
});

test("lane: a decision comes while removals wait: it does not wait as long as they", async () => {
  const fixture = new Fixture();
  fixture.lane.remove(idOf(1));
  void fixture.lane.decide(idOf(2), 1);
  await fixture.clock.advance(DECISION_DELAY_MS);
  assert.deepEqual(fixture.counts, [[0, 1, 1]]);
});

test("lane: a reader wants a decision: it leaves at once, the next ones too for a while", async () => {
  const fixture = new Fixture();
  fixture.lane.want();
  assert.deepEqual(fixture.counts, []);
  void fixture.lane.decide(idOf(1), 1);
  await settle();
  assert.deepEqual(fixture.counts, [[0, 1, 0]]);
  await fixture.clock.advance(DECISION_DELAY_MS);
  void fixture.lane.decide(idOf(2), 1);
  await settle();
  assert.equal(fixture.calls.length, 1);
  fixture.lane.want();
  assert.equal(fixture.calls.length, 2);
});

test("lane: more than one call holds: divided by count and by bytes, all answered", async () => {
  const fixture = new Fixture();
  const large = new Uint8Array(CALL_BYTES_TARGET);
  await Promise.all([fixture.lane.put(idOf(1), large), fixture.lane.put(idOf(2), large)]);
  assert.deepEqual(fixture.counts, [
    [1, 0, 0],
    [1, 0, 0],
  ]);
  const decisions = Array.from({ length: LOG_CALL_ENTRIES_MAX + 1 }, (_, at) => fixture.lane.decide(idOf(at), 1));
  await fixture.clock.advance(DECISION_DELAY_MS);
  assert.ok((await Promise.all(decisions)).every(Boolean));
  assert.deepEqual(fixture.counts.slice(2), [
    [0, LOG_CALL_ENTRIES_MAX, 0],
    [0, 1, 0],
  ]);
});

test("lane: each entry has its own answer", async () => {
  const fixture = new Fixture();
  fixture.answer = async () => ({ results: ["mismatch", "kept", "full-entries"], applied: [] });
  const puts = [1, 2, 3].map((at) => fixture.lane.put(idOf(at), entry));
  const codes = await Promise.all(
    puts.map((put) =>
      put.then(
        () => "kept",
        (thrown: ConcordError) => `${thrown.code} ${thrown.applied}`,
      ),
    ),
  );
  assert.deepEqual(codes, ["IDEMPOTENCY_MISMATCH no", "kept", "OVERLOADED no"]);
});

test("lane: the call fails: entries with its error, decisions are not applied", async () => {
  const fixture = new Fixture();
  fixture.answer = () => Promise.reject(new ConcordError("CONNECTION_LOST", "gone", { applied: "unknown" }));
  const decided = fixture.lane.decide(idOf(1), 1);
  await assert.rejects(fixture.lane.put(idOf(2), entry), { code: "CONNECTION_LOST", applied: "unknown" });
  assert.equal(await decided, false);
  assert.equal(fixture.failures.length, 1);
});

test("lane: stopped: what waits is sent and waited for, later decisions and removals are left to replay", async () => {
  const fixture = new Fixture();
  void fixture.lane.decide(idOf(1), 1);
  await fixture.lane.stop();
  assert.equal(await fixture.lane.decide(idOf(2), 1), false);
  fixture.lane.remove(idOf(1));
  await fixture.clock.advance(2 * REMOVAL_DELAY_MS);
  assert.deepEqual(fixture.counts, [[0, 1, 0]]);
});

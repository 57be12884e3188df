import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  BORROW_MS_MAX,
  GUID_END_MS,
  GUID_EPOCH_MS,
  initialState,
  issue,
  partsOfGuid,
  SEQUENCES_PER_MS,
  STEP_BACK_MS_MAX,
  TAKE_COUNT_MAX,
  type GuidState,
  type Issue,
} from "./index.ts";

const T = 1_800_000_000_000;

function issued(answer: Issue): Extract<Issue, { kind: "issued" }> {
  assert.equal(answer.kind, "issued");
  return answer as Extract<Issue, { kind: "issued" }>;
}

function all(answer: Issue): bigint[] {
  return issued(answer).ranges.flatMap(({ first, count }) => Array.from({ length: count }, (_, at) => first + BigInt(at)));
}

test("[S6] issue: more than a millisecond holds: spills into the next ones, in ranges", () => {
  const { ranges, state } = issued(issue(initialState(7), T, 2 * SEQUENCES_PER_MS + 5));
  assert.deepEqual(
    ranges.map(({ first, count }) => ({ ...partsOfGuid(first), count })),
    [
      { timeMs: T, workerId: 7, sequence: 0, count: 4096 },
      { timeMs: T + 1, workerId: 7, sequence: 0, count: 4096 },
      { timeMs: T + 2, workerId: 7, sequence: 0, count: 5 },
    ],
  );
  assert.deepEqual(state, { workerId: 7, nextMs: T + 2, nextSequence: 5 });
});

test("[S6] issue: exactly full: the next id is the first of the next millisecond", () => {
  const { state } = issued(issue(initialState(7), T, SEQUENCES_PER_MS));
  assert.deepEqual(state, { workerId: 7, nextMs: T + 1, nextSequence: 0 });
  assert.deepEqual(partsOfGuid(all(issue(state, T, 1))[0]!), { timeMs: T + 1, workerId: 7, sequence: 0 });
});

test("[S4] issue: the clock stood still or stepped back: goes on above, never reuses", () => {
  const first = issued(issue(initialState(1), T, 3));
  for (const nowMs of [T, T - 1, T - BORROW_MS_MAX]) {
    assert.deepEqual(partsOfGuid(all(issue(first.state, nowMs, 1))[0]!), { timeMs: T, workerId: 1, sequence: 3 });
  }
});

test("[S4] issue: further ahead than may be borrowed: waits until the clock is close enough", () => {
  const { state } = issued(issue(initialState(1), T, 1));
  assert.deepEqual(issue(state, T - BORROW_MS_MAX - 1, 1), { kind: "wait", untilMs: T - BORROW_MS_MAX });
  assert.equal(issue(state, T - BORROW_MS_MAX, 1).kind, "issued");
  const burst = (BORROW_MS_MAX + 1) * SEQUENCES_PER_MS;
  let ahead: GuidState = initialState(1);
  for (let left = burst; left > 0; left -= SEQUENCES_PER_MS) ahead = issued(issue(ahead, T, SEQUENCES_PER_MS)).state;
  assert.deepEqual(issue(ahead, T, 1), { kind: "wait", untilMs: T + 1 });
});

test("[S4] issue: the clock stepped far back: refused, and good again when it is back", () => {
  const { state } = issued(issue(initialState(1), T, 1));
  assert.equal(issue(state, T - STEP_BACK_MS_MAX, 1).kind, "wait");
  assert.deepEqual(issue(state, T - STEP_BACK_MS_MAX - 1, 1), { kind: "skew", behindMs: STEP_BACK_MS_MAX + 1 });
  assert.equal(issue(state, T + 1, 1).kind, "issued");
});

test("issue: a clock before 2020 or behind the last millisecond: refused", () => {
  assert.equal(issue(initialState(1), 0, 1).kind, "skew");
  assert.equal(issue(initialState(1), GUID_EPOCH_MS, 1).kind, "issued");
  assert.equal(issue(initialState(1), GUID_END_MS - 1, SEQUENCES_PER_MS).kind, "issued");
  assert.equal(issue(initialState(1), GUID_END_MS - 1, SEQUENCES_PER_MS + 1).kind, "out-of-range");
  assert.equal(issue(initialState(1), GUID_END_MS, 1).kind, "out-of-range");
});

test("issue: counts: 1 and the limit are given, none and more are our bug", () => {
  assert.equal(all(issue(initialState(1), T, 1)).length, 1);
  assert.equal(all(issue(initialState(1), T, TAKE_COUNT_MAX)).length, TAKE_COUNT_MAX);
  for (const count of [0, -1, 1.5, TAKE_COUNT_MAX + 1]) assert.throws(() => issue(initialState(1), T, count));
});

test("[S1] [S3] issue: any clock, any counts: strictly increasing, as many as asked for, never far ahead", () => {
  const step = fc.record({ nowMs: fc.integer({ min: T - 12_000, max: T + 12_000 }), count: fc.integer({ min: 1, max: 10_000 }) });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40, size: "max" }), (steps) => {
      let state = initialState(5);
      let last = -1n;
      for (const { nowMs, count } of steps) {
        const answer = issue(state, nowMs, count);
        if (answer.kind !== "issued") continue;
        const ids = all(answer);
        assert.equal(ids.length, count);
        for (const id of ids) {
          assert.ok(id > last);
          last = id;
        }
        assert.ok(partsOfGuid(last).timeMs <= nowMs + BORROW_MS_MAX);
        assert.equal(partsOfGuid(last).workerId, 5);
        state = answer.state;
      }
    }),
  );
});

test("[S2] issue: two workers whose clocks differ: ids are out of order at most by that and what may be borrowed", () => {
  const skewMs = 500;
  const turn = fc.record({
    passedMs: fc.integer({ min: 0, max: 800 }),
    worker: fc.integer({ min: 0, max: 1 }),
    count: fc.integer({ min: 1, max: 9_000 }),
  });
  fc.assert(
    fc.property(fc.array(turn, { maxLength: 40, size: "max" }), (turns) => {
      const states = [initialState(0), initialState(1)];
      const made: { readonly trueMs: number; readonly id: bigint }[] = [];
      let trueMs = T;
      for (const { passedMs, worker, count } of turns) {
        trueMs += passedMs;
        const answer = issue(states[worker]!, trueMs + worker * skewMs, count);
        if (answer.kind !== "issued") continue;
        states[worker] = answer.state;
        made.push({ trueMs, id: all(answer).at(-1)! });
      }
      for (const early of made)
        for (const late of made) if (late.trueMs - early.trueMs > skewMs + BORROW_MS_MAX) assert.ok(late.id > early.id, "k-sorted");
    }),
    { numRuns: 40 },
  );
});

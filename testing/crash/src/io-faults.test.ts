// Which call fails in which cycle of `--faults`.
import assert from "node:assert/strict";
import { test } from "node:test";
import { IoFaults, plannedCall } from "./io-faults.ts";

const ROUND = IoFaults.names.length;

function cyclesOf(round: number): readonly number[] {
  return Array.from({ length: ROUND }, (_, turn) => round * ROUND + turn);
}

test("faults of the file system: as many cycles as kinds: each kind once, in every round", () => {
  for (const round of [0, 1, 7]) {
    const names = cyclesOf(round).map((cycle) => plannedCall(cycle).name);
    assert.deepEqual(names.toSorted(), IoFaults.names.toSorted());
  }
});

test("faults of the file system: renames and opens failed at the same call in every round", () => {
  for (const cycle of [0, 1, 2, 3].flatMap(cyclesOf)) {
    const [now, next] = [plannedCall(cycle), plannedCall(cycle + ROUND)];
    assert.equal(next.name, now.name);
    assert.notEqual(next.first, now.first, `${now.name} of cycle ${cycle} and ${cycle + ROUND}`);
  }
});

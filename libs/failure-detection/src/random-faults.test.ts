// Kills, restarts, pauses, stuck loops, one-way cuts and losses, drawn by fast-check, on simulated time. Judged: I2 at every verdict, and that
// all who live work again when the faults are over (completeness, accuracy).
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { DETECTION_LIMITS } from "./index.ts";
import { advanceJudged, Mesh, runDetectionHistory, runListHistory, type MeshFault } from "./test/history.ts";

const { stuckMs } = DETECTION_LIMITS;

const member = fc.nat(4);
const fault: fc.Arbitrary<MeshFault> = fc.oneof(
  fc.record({ kind: fc.constantFrom("kill" as const, "restart" as const, "stuck" as const, "unstuck" as const), at: member }),
  fc.record({ kind: fc.constant("pause" as const), at: member, ms: fc.integer({ min: 1, max: 2_500 }) }),
  fc.record({ kind: fc.constant("cut" as const), from: member, to: member }),
  fc.record({ kind: fc.constant("loss" as const), percent: fc.integer({ min: 0, max: 60 }) }),
  fc.record({ kind: fc.constant("heal" as const) }),
);
const plan = fc.array(fc.tuple(fc.integer({ min: 0, max: 700 }), fault), { minLength: 1, maxLength: 25, size: "max" });

for (const members of [2, 3, 5]) {
  test(`[TX14] random faults: ${members} members: no verdict before the lease ended (I2); healed: all who live work, the dead are gone`, () => {
    fc.assert(
      fc.property(plan, fc.nat(), (steps, seed) => {
        runDetectionHistory(members, steps, seed + 1);
      }),
      { numRuns: 25 },
    );
  });
}

const listFault: fc.Arbitrary<MeshFault> = fc.oneof(
  fault,
  fc.record({ kind: fc.constantFrom("list" as const, "list" as const, "unread" as const), at: fc.nat(5) }),
  fc.record({ kind: fc.constant("split" as const), side: fc.nat(63) }),
);
const listPlan = fc.array(fc.tuple(fc.integer({ min: 0, max: 1_500 }), listFault), { minLength: 1, maxLength: 25, size: "max" });

for (const members of [2, 3, 5]) {
  test(`[TX32] random faults: ${members} members at first, some added and removed: no verdict that counts before the lease ended (I5); healed: all who live work`, () => {
    fc.assert(
      fc.property(listPlan, fc.nat(), (steps, seed) => {
        runListHistory(members, 6, steps, seed + 1);
      }),
      { numRuns: 10 },
    );
  });
}

for (const members of [3, 5]) {
  test(`[TX14] stuck: ${members} members: a loop that goes on just after a beat said that it is stuck: no verdict before the lease ended (I2)`, () => {
    for (let stuckForMs = stuckMs - 10; stuckForMs < stuckMs + 100; stuckForMs += 1) {
      const mesh = new Mesh(members);
      mesh.link = () => 4;
      advanceJudged(mesh, 300);
      mesh.members[0]!.loopStuckSinceMs = mesh.nowMs;
      advanceJudged(mesh, stuckForMs);
      mesh.members[0]!.loopStuckSinceMs = undefined;
      advanceJudged(mesh, 500);
      assert.equal(mesh.self(0), "works");
    }
  });
}

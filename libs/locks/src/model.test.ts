// The table against the model of test/history.ts, by random steps.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { LockMode } from "./index.ts";
import { LOCK_KEYS, playLocks, TRANSACTIONS, type LockStep } from "./test/history.ts";

const id = fc.constantFrom(...TRANSACTIONS);
const key = fc.constantFrom(...LOCK_KEYS);
const mode = fc.constantFrom<LockMode>("shared", "exclusive", "intent");
const request = fc.record({ kind: fc.constant("request" as const), id, key, mode, waitMs: fc.constantFrom(0, 30, 100, 200) });
const step: fc.Arbitrary<LockStep> = fc.oneof(
  { weight: 12, arbitrary: request },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("range" as const), id, waitMs: fc.constantFrom(30, 200) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("release" as const), id }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("cancel" as const), id }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("committing" as const), id }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("tick" as const), passMs: fc.integer({ min: 0, max: 40 }) }) },
);

test("[TX4] [TXD9] lock table: any steps: mutual exclusion, no lost wake-up, deadlocks exactly as in the model", () => {
  let deadlocks = 0;
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80, size: "max" }), (steps) => {
      deadlocks += playLocks(steps);
    }),
    { numRuns: 1500, seed: 20261121 },
  );
  assert.ok(deadlocks > 500, `only ${deadlocks} deadlocks were met`);
});

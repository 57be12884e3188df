// Random histories of one partition and its neighbour: duplicates, missing and misrouted ids, publishes of unknown outcome, deaths at
// every failpoint, power cuts and lost stores. What is acknowledged is published, each id once within the window, results are true.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { PublishFault } from "@concord/port-contracts";
import fc from "fast-check";
import { History, IDS_COUNT, type Step } from "./test/history.ts";

const STEP: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant("send" as const),
      ids: fc.array(fc.integer({ min: -2, max: IDS_COUNT - 1 }), { minLength: 1, maxLength: 30 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("fault" as const),
      fault: fc.constantFrom<PublishFault>("unknown-applied", "unknown-not-applied", "unknown-applied-later", "fenced"),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("turns" as const), turns: fc.integer({ min: 1, max: 30 }) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("die" as const),
      hits: fc.integer({ min: 1, max: 25 }),
      cut: fc.constantFrom("power" as const, "process" as const),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: "lose" as const }) },
);

const passed = new Set<string>();

test("[DD10, DD15] random histories: deaths, power cuts, unknown publishes: each id once within the window, nothing lost", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(STEP, { minLength: 1, maxLength: 40, size: "max" }), async (steps) => {
      const history = new History();
      history.live();
      for (const step of steps) await history.run(step);
      await history.finish();
      for (const name of history.passed) passed.add(name);
    }),
    { numRuns: Number(process.env["DEDUP_RUNS"] ?? 150), seed: Number(process.env["DEDUP_SEED"] ?? 20261121) },
  );
});

test("random histories: every failpoint is passed", () => {
  const points = ["fenced", "rebuilt", "looked-up", "published", "journaled", "applied", "sealing", "run-written", "sealed", "run-dropped"];
  assert.deepEqual(
    points.filter((name) => !passed.has(`dedup:${name}`)),
    [],
  );
});

// Random transactions over random faults and takeovers: what was acknowledged is there, what was aborted is not, in one order.
import fc from "fast-check";
import { test } from "node:test";
import { LISTS, REPEATS, playTransactions, type Step } from "./test/history.ts";

const RUNS = 60;

const list = fc.integer({ min: 0, max: LISTS - 1 });
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({
      kind: fc.constant("append" as const),
      from: list,
      to: list,
      master: fc.integer({ min: 0, max: 2 }),
      blind: fc.boolean(),
      repeat: fc.constantFrom(...REPEATS),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("append-fault" as const),
      fault: fc.constantFrom("lost" as const, "accepted" as const, "throw" as const),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant("apply-fault" as const), fault: fc.constantFrom("lost" as const, "written" as const) }),
  },
  { weight: 1, arbitrary: fc.constant<Step>({ kind: "takeover" }) },
  { weight: 1, arbitrary: fc.constant<Step>({ kind: "stop" }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("wait" as const), ms: fc.constantFrom(0, 1, 15, 300) }) },
);

for (const appliesRows of [false, true]) {
  const who = appliesRows ? "replicas apply" : "owner applies";
  test(`[TXD1] [TXD2] [TXD7] [TXD14] random faults and takeovers, ${who}: acknowledged is there, refused is not, unknown is resolved, in one order`, async () => {
    const property = fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40, size: "max" }), (steps) =>
      playTransactions(steps, appliesRows).then(() => undefined),
    );
    await fc.assert(property, { numRuns: RUNS, seed: 2026 });
  });
}

// A store under random writes, checkpoints, scans and crashes that lose any part of what is not durable.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { bytes, contentsOf, derived, Machine, NONE, put, remove, textOf, turns, writes } from "./test/machine.ts";

const CRASH_POINTS = [
  "store:intended",
  "store:rows-written",
  "store:flushed",
  "store:checkpointed",
  "store:trimmed",
  "journal:group-writing",
  "journal:group-synced",
  "journal:segment-made",
  "journal:segment-dropped",
] as const;

type Action =
  | { readonly kind: "write"; readonly key: number; readonly value: string | undefined; readonly derived: boolean }
  | { readonly kind: "checkpoint" }
  | { readonly kind: "scan" }
  | { readonly kind: "crash"; readonly keep: number; readonly point: (typeof CRASH_POINTS)[number] | undefined };

const ACTION: fc.Arbitrary<Action> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant("write" as const),
      key: fc.integer({ min: 0, max: 9 }),
      value: fc.option(fc.string({ maxLength: 40 }), { nil: undefined }),
      derived: fc.boolean(),
    }),
  },
  { weight: 2, arbitrary: fc.constantFrom({ kind: "checkpoint" as const }, { kind: "scan" as const }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("crash" as const),
      keep: fc.nat(),
      point: fc.option(fc.constantFrom(...CRASH_POINTS), { nil: undefined }),
    }),
  },
);

/** Keys below 5 are persisted, those from 5 on derived: each of these may go back to what the newest checkpoint said, or any later. */
test("property: writes, checkpoints, crashes at every point that lose any part: what was answered is there (I1)", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(ACTION, { maxLength: 60, size: "max" }), fc.integer({ min: 1, max: 2_000 }), async (actions, logBytes) => {
      const machine = new Machine(logBytes);
      machine.shortLived = "34";
      const limits = { checkpointBytes: 600, dirtyBytesMax: 2_500, scanEntries: 2, journal: { segmentBytes: 300 } };
      const expected = new Map<string, string>();
      /** Derived values that a crash may leave, per key. */
      const possible = new Map<string, Set<string | undefined>>();
      let store = await machine.open(limits);
      const restart = async (keep: number): Promise<void> => {
        let seed = keep;
        machine.crash(
          keep % 3 === 0 ? "nothing" : keep % 3 === 1 ? "everything" : (count) => (seed = (seed * 31 + 7) % 1_009) % (count + 1),
        );
        store = await machine.open(limits);
        const found = await contentsOf(store);
        const keys = Object.keys(found);
        assert.deepEqual(
          (await store.getMany(keys.map(bytes))).map(textOf),
          Object.values(found),
          "a key that is there is called absent (I9)",
        );
        for (const [key, value] of expected) assert.equal(found[key], value, key);
        for (const [key, value] of Object.entries(found)) {
          if (key < "5") assert.equal(value, expected.get(key), key);
          else assert.ok(possible.get(key)!.has(value), key);
        }
        for (const [key, values] of possible) assert.ok(values.has(found[key]), `${key} is ${found[key]}`);
      };
      for (const action of actions) {
        if (action.kind === "checkpoint" || action.kind === "scan") {
          (action.kind === "checkpoint" ? machine.timers : machine.scanTimers)[0]?.();
          await turns();
        } else if (action.kind === "crash") {
          machine.stopAt = action.point;
          machine.timers[0]?.();
          await turns();
          await restart(action.keep);
        } else {
          const isDerived = action.key >= 5;
          const key = String(action.key);
          const operation = action.value === undefined ? remove(key) : put(key, action.value);
          await (isDerived ? store.write(writes(), derived(operation)) : store.write(writes(operation), NONE));
          if (isDerived) possible.set(key, (possible.get(key) ?? new Set<string | undefined>([undefined])).add(action.value));
          else if (action.value === undefined) expected.delete(key);
          else expected.set(key, action.value);
        }
      }
      await restart(0);
    }),
    { numRuns: 100 },
  );
});

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { SortedKeys } from "./sorted-keys.ts";

test("property: any additions: ranges both ways are those of a sorted array", () => {
  const key = fc.integer({ min: 0, max: 4_000 }).map((n) => String(n).padStart(4, "0"));
  fc.assert(
    fc.property(fc.array(key, { maxLength: 2_500 }), key, key, (added, from, to) => {
      const [set, reference] = [new SortedKeys(), new Set<string>()];
      const expected = (): string[] => [...reference].sort().filter((each) => each >= from && each < to);
      for (const [at, each] of added.entries()) {
        if (!reference.has(each)) set.add(each);
        reference.add(each);
        if (at % 700 === 699) assert.deepEqual([...set.descending(from, to)], expected().toReversed());
      }
      assert.deepEqual([...set.ascending(from, to)], expected());
      assert.deepEqual([...set.descending(from, to)], expected().toReversed());
    }),
    { numRuns: 50 },
  );
});

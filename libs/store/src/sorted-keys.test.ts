import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { SortedKeys } from "./sorted-keys.ts";

test("property: any additions and removals: ranges both ways are those of a sorted array", () => {
  const key = fc.integer({ min: 0, max: 2_000 }).map((n) => String(n).padStart(4, "0"));
  fc.assert(
    fc.property(fc.array(key, { maxLength: 1_500 }), fc.array(key), key, key, (added, removed, from, to) => {
      const [set, reference] = [new SortedKeys(), new Set<string>()];
      for (const each of added) {
        set.add(each);
        reference.add(each);
      }
      for (const each of removed) {
        set.delete(each);
        reference.delete(each);
      }
      const expected = [...reference].sort().filter((each) => each >= from && each < to);
      assert.deepEqual([...set.ascending(from, to)], expected);
      assert.deepEqual([...set.descending(from, to)], expected.toReversed());
    }),
    { numRuns: 50 },
  );
});

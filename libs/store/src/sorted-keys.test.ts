import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { PlacedPut } from "@concord/codec";
import { DirtyEntry } from "./dirty-entry.ts";
import { SortedKeys } from "./sorted-keys.ts";

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);

test("property: any additions: ranges both ways are those of a sorted array", () => {
  const key = fc.integer({ min: 0, max: 4_000 }).map((n) => String(n).padStart(4, "0"));
  fc.assert(
    fc.property(fc.array(key, { maxLength: 2_500, size: "max" }), key, key, (added, from, to) => {
      const entries: DirtyEntry[] = [];
      const [set, reference] = [new SortedKeys(entries), new Set<string>()];
      const expected = (): string[] => [...reference].sort().filter((each) => each >= from && each < to);
      const textsAt = (indices: Iterable<number>): string[] => Array.from(indices, (at) => new TextDecoder().decode(entries[at]!.key));
      for (const [at, each] of added.entries()) {
        const bytes = bytesOf(each);
        const put = at % 2 === 0 ? new PlacedPut(bytes, { from: 0, valueFrom: 4, to: 4 }) : ({ kind: "delete", key: bytes } as const);
        if (!reference.has(each)) entries.push(new DirtyEntry(put));
        reference.add(each);
        if (at % 700 === 699) assert.deepEqual(textsAt(set.descending(bytesOf(from), bytesOf(to))), expected().toReversed());
      }
      assert.deepEqual(textsAt(set.ascending(bytesOf(from), bytesOf(to))), expected());
      assert.deepEqual(textsAt(set.descending(bytesOf(from), bytesOf(to))), expected().toReversed());
    }),
    { numRuns: 50 },
  );
});

// What a write lost to, against what merging leaves of it.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Mutation, RowImage, RowKey } from "@concord/ports";
import { TIMESTAMP_ZERO, timestampUsOf } from "@concord/runtime";
import fc from "fast-check";
import { emptyImage, imageOf, liveRow, mergeImages, supersedingUs } from "./row-image.ts";

const key: RowKey = { table: "t", partition: [{ kind: "bigint", value: 1n }], clustering: [] };
const columns = fc.uniqueArray(
  fc.record({
    column: fc.constantFrom("a", "b"),
    value: fc.option(fc.record({ kind: fc.constant("bigint" as const), value: fc.bigInt(0n, 2n) })),
  }),
  { selector: ({ column }) => column, maxLength: 2 },
);
const mutation: fc.Arbitrary<Mutation> = fc
  .record({ kind: fc.constantFrom("insert" as const, "update" as const, "delete" as const), at: fc.bigInt(1n, 6n), columns })
  .map(({ kind, at, columns: written }) => {
    const timestampUs = timestampUsOf(at);
    return kind === "delete" ? { kind, key, timestampUs } : { kind, key, columns: written, timestampUs };
  });

/** Everything that the mutation says is so afterwards. */
function hasEffect(change: Mutation, after: RowImage): boolean {
  const row = liveRow(after);
  if (change.kind === "delete") return row === undefined;
  if (change.kind === "insert" && after.markerUs === undefined) return false;
  return change.columns.every(({ column, value }) => {
    const present = row?.columns.get(column);
    return value === null ? present === undefined : present?.kind === "bigint" && value.kind === "bigint" && present.value === value.value;
  });
}

test("superseding: every history of a row: reported exactly where a part of the write has no effect, and no effect is missed above what is reported", () => {
  fc.assert(
    fc.property(fc.array(mutation, { maxLength: 5 }), mutation, (before, change) => {
      const stored = before.map(imageOf).reduce(mergeImages, emptyImage(key));
      const newestUs = supersedingUs(stored, imageOf(change));
      assert.equal(newestUs === TIMESTAMP_ZERO, hasEffect(change, mergeImages(stored, imageOf(change))));
      if (newestUs === TIMESTAMP_ZERO) return;
      const above: Mutation = { ...change, timestampUs: timestampUsOf(newestUs + 1n) };
      assert.ok(hasEffect(above, mergeImages(stored, imageOf(above))));
    }),
    { numRuns: 3_000 },
  );
});

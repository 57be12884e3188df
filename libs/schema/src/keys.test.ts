import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { RowKey, RowRange } from "@concord/ports";
import { type CellValue, compareValues } from "@concord/values";
import { compareClustering, inRange, keyText, partitionText, sameKey } from "./index.ts";
import { bigint, int, text } from "./test/albums.ts";

const value: fc.Arbitrary<CellValue> = fc.oneof(
  fc.constantFrom("", "a", "/", ":", "1", "/int:1:1", "\u0000").map(text),
  fc.integer({ min: -2, max: 2 }).map(int),
  fc.integer({ min: -2, max: 2 }).map(bigint),
  fc.uint8Array({ maxLength: 2 }).map((bytes): CellValue => ({ kind: "blob", value: bytes })),
  fc.boolean().map((given): CellValue => ({ kind: "boolean", value: given })),
);
const values = fc.array(value, { maxLength: 3 });
const key: fc.Arbitrary<RowKey> = fc.record({ table: fc.constantFrom("t", "tt"), partition: values, clustering: values });

test("keyText: any two keys: equal texts exactly when the same row", () => {
  fc.assert(
    fc.property(key, key, (left, right) => {
      assert.equal(keyText(left) === keyText(right), sameKey(left, right));
      assert.equal(
        partitionText(left.table, left.partition) === partitionText(right.table, right.partition),
        sameKey({ ...left, clustering: [] }, { ...right, clustering: [] }),
      );
    }),
    { numRuns: 3000 },
  );
});

test("keyText: values moved between partition and clustering: other texts", () => {
  const left = { table: "t", partition: [int(1)], clustering: [int(2)] };
  assert.notEqual(keyText(left), keyText({ table: "t", partition: [int(1), int(2)], clustering: [] }));
});

const number = fc.integer({ min: 0, max: 3 });
const clustering = fc.array(number, { minLength: 2, maxLength: 2 });
const bound = fc.option(fc.record({ prefix: fc.array(number, { minLength: 1, maxLength: 2 }), inclusive: fc.boolean() }), {
  nil: undefined,
});

/** The bound as SQL reads it: tuples of the bound's length are compared. */
function within(given: readonly number[], lower: { prefix: number[]; inclusive: boolean } | undefined, sign: number): boolean {
  if (lower === undefined) return true;
  const head = given.slice(0, lower.prefix.length);
  const order =
    sign * (head.length === 2 ? head[0]! * 10 + head[1]! - lower.prefix[0]! * 10 - lower.prefix[1]! : head[0]! - lower.prefix[0]!);
  return order > 0 || (order === 0 && lower.inclusive);
}

test("inRange: any bounds and key: as comparing tuples of the bound's length", () => {
  fc.assert(
    fc.property(
      clustering,
      bound,
      bound,
      fc.option(clustering, { nil: undefined }),
      fc.boolean(),
      (given, lower, upper, after, reverse) => {
        const ofInts = (numbers: readonly number[]): CellValue[] => numbers.map(int);
        const range: RowRange = {
          table: "t",
          partition: [int(1)],
          ...(lower && { lower: { ...lower, prefix: ofInts(lower.prefix) } }),
          ...(upper && { upper: { ...upper, prefix: ofInts(upper.prefix) } }),
          ...(after && { after: ofInts(after) }),
          reverse,
          limit: 1,
        };
        const order = after === undefined ? 1 : compareClustering(ofInts(given), ofInts(after)) * (reverse ? -1 : 1);
        const expected = within(given, lower, 1) && within(given, upper, -1) && order > 0;
        assert.equal(inRange(range, { table: "t", partition: [int(1)], clustering: ofInts(given) }), expected);
      },
    ),
    { numRuns: 3000 },
  );
});

test("inRange: another table or partition: false", () => {
  const range: RowRange = { table: "t", partition: [int(1)], reverse: false, limit: 1 };
  assert.ok(inRange(range, { table: "t", partition: [int(1)], clustering: [] }));
  assert.ok(!inRange(range, { table: "u", partition: [int(1)], clustering: [] }));
  assert.ok(!inRange(range, { table: "t", partition: [int(2)], clustering: [] }));
});

test("compareClustering: agrees with compareValues on one column and puts a prefix first", () => {
  fc.assert(
    fc.property(value, value, (left, right) => Math.sign(compareClustering([left], [right])) === Math.sign(compareValues(left, right))),
  );
  assert.ok(compareClustering([int(1)], [int(1), int(0)]) < 0);
});

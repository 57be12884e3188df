import fc from "fast-check";
import assert from "node:assert/strict";
import { test } from "node:test";
import type { CellValue } from "@concord/ports";
import { compareBytes } from "@concord/codec";
import { compareValues } from "./row-image.ts";
import { encodeOrderedValue } from "./storage-format.ts";

const text = (value: string): CellValue => ({ kind: "text", value });

test("compareValues: text beyond the basic plane: the order of stored keys", () => {
  const unit = fc.constantFrom("a", "\0", "é", "\ud7ff", "\ue000", "！", "\uffff", "😀", "\u{10ffff}");
  const value = fc.string({ unit, maxLength: 4 }).map(text);
  fc.assert(
    fc.property(value, value, (left, right) => {
      assert.equal(Math.sign(compareValues(left, right)), Math.sign(compareBytes(encodeOrderedValue(left), encodeOrderedValue(right))));
    }),
    { seed: 7, numRuns: 2000 },
  );
});

import { readOrderedF64, writeOrderedF64 } from "@concord/codec";
import type { CellTypeOf, Literal, Refused } from "../cell-type.ts";
import { asItIs, otherLiteral } from "./shared.ts";

/** Whole numbers beyond this are not exact as double. */
const EXACT_MAX = BigInt(Number.MAX_SAFE_INTEGER);

/** -0 is 0. NaN, which has no place among the values, is refused wherever a schema is at hand and always in keys. */
export const double: CellTypeOf<"double"> = {
  tag: 6,
  takes: "a number other than NaN",
  compare,
  bytesOf: () => 8,
  problemOf: (content) => (Number.isNaN(content) ? "is NaN, which has no order" : undefined),
  keyProblemOf: (content) => (Number.isNaN(content) ? "is NaN" : undefined),
  canonical: (content) => (content === 0 ? 0 : content),
  keyText: String,
  writeKey: writeOrderedF64,
  readKey: readOrderedF64,
  writeCell: writeOrderedF64,
  readCell: readOrderedF64,
  tokenBytes,
  toWire: (content) => ({ doubleValue: content }),
  fromWire: (message) => message.doubleValue,
  fromLiteral,
  fromJavaScript: (value) => (typeof value === "number" && !Number.isNaN(value) ? value : undefined),
  toJavaScript: asItIs,
};

/** NaN last, as its bytes are: merging needs a total order whatever a cell holds. */
function compare(left: number, right: number): number {
  if (left < right) return -1;
  if (left > right) return 1;
  return left === right ? 0 : Number(Number.isNaN(left)) - Number(Number.isNaN(right));
}

function tokenBytes(content: number): Uint8Array {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setFloat64(0, content);
  return bytes;
}

function fromLiteral(literal: Literal): number | Refused {
  if (literal.kind === "decimal") {
    const value = Number(literal.text);
    return Number.isFinite(value) ? value : { refused: "is too large for a double" };
  }
  if (literal.kind !== "integer") return otherLiteral(literal);
  if (literal.value > EXACT_MAX || literal.value < -EXACT_MAX) {
    return { refused: "is a whole number that is not exact as double; write 1.0e20" };
  }
  return Number(literal.value);
}

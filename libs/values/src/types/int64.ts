import { readOrderedI64, writeOrderedI64 } from "@concord/codec";
import type { Literal, Refused } from "../cell-type.ts";
import { asItIs, compareNumbers, noProblem, otherLiteral } from "./shared.ts";

const scratch = new DataView(new ArrayBuffer(8));
const MIN = -(1n << 63n);
const MAX = (1n << 63n) - 1n;

/** What bigint and timestamp have in common: 64 bits, signed. */
export const INT64 = {
  compare: compareNumbers,
  bytesOf: () => 8,
  problemOf: (content: bigint) => (isInt64(content) ? undefined : "is outside 64 bits"),
  keyProblemOf: noProblem,
  canonical: asItIs,
  keyText: String,
  writeKey: writeOrderedI64,
  readKey: readOrderedI64,
  writeCell: writeOrderedI64,
  readCell: readOrderedI64,
  tokenBytes,
  fromLiteral: (literal: Literal): bigint | Refused => (literal.kind === "integer" ? literal.value : otherLiteral(literal)),
} as const;

export function wholeOf(value: unknown): bigint | undefined {
  if (typeof value === "number" && Number.isSafeInteger(value)) return BigInt(value);
  return typeof value === "bigint" && isInt64(value) ? value : undefined;
}

function isInt64(value: bigint): boolean {
  return value >= MIN && value <= MAX;
}

function tokenBytes(content: bigint): Uint8Array {
  scratch.setBigInt64(0, content);
  return new Uint8Array(scratch.buffer.slice(0));
}

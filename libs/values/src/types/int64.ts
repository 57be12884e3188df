import { readOrderedI64, writeOrderedI64 } from "@concord/codec";
import type { Literal, Refused } from "../cell-type.ts";
import { asItIs, compareNumbers, noProblem, otherLiteral } from "./shared.ts";

const TWO_32 = 2 ** 32;
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

/** Eight bytes, big-endian, two's complement. */
function tokenBytes(content: bigint): Uint8Array {
  const number = Number(content);
  const isExact = Number.isSafeInteger(number);
  const high = isExact ? Math.floor(number / TWO_32) : Number(content >> 32n);
  const low = isExact ? number - high * TWO_32 : Number(BigInt.asUintN(32, content));
  const bytes = new Uint8Array(8);
  for (let at = 0; at < 4; at += 1) {
    bytes[at] = high >> (24 - 8 * at);
    bytes[at + 4] = low >>> (24 - 8 * at);
  }
  return bytes;
}

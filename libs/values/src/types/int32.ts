import { readOrderedI32, writeOrderedI32 } from "@concord/codec";
import { asItIs, compareNumbers, noProblem } from "./shared.ts";

const MIN = -(2 ** 31);
const MAX = 2 ** 31 - 1;

/** What types of 32 bits, signed, have in common. */
export const INT32 = {
  compare: compareNumbers,
  bytesOf: () => 4,
  keyProblemOf: noProblem,
  canonical: asItIs,
  keyText: String,
  writeKey: writeOrderedI32,
  readKey: readOrderedI32,
  writeCell: writeOrderedI32,
  readCell: readOrderedI32,
  tokenBytes: (content: number): Uint8Array => new Uint8Array([content >> 24, content >> 16, content >> 8, content]),
} as const;

export function isInt32(value: number): boolean {
  return Number.isInteger(value) && value >= MIN && value <= MAX;
}

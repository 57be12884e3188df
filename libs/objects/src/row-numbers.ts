import { corrupt, type ByteReader, type ByteWriter } from "@concord/codec";
import { assert } from "@concord/runtime";

/** A whole number up to 2^53. */
export function writeNumber(writer: ByteWriter, value: number): void {
  assert(Number.isSafeInteger(value) && value >= 0, "a number in a row is whole, and not below zero");
  writer.u64(BigInt(value));
}

export function readNumber(reader: ByteReader): number {
  const value = Number(reader.u64());
  if (!Number.isSafeInteger(value)) throw corrupt("a number beyond 2^53");
  return value;
}

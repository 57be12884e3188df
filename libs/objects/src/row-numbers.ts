import { corrupt, type ByteReader, type ByteWriter } from "@concord/codec";

/** A whole number up to 2^53. */
export function writeNumber(writer: ByteWriter, value: number): void {
  writer.u64(BigInt(value));
}

export function readNumber(reader: ByteReader): number {
  const value = Number(reader.u64());
  if (!Number.isSafeInteger(value)) throw corrupt("a number beyond 2^53");
  return value;
}

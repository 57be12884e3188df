import { corrupt, type ByteReader } from "./byte-reader.ts";
import type { ByteWriter } from "./byte-writer.ts";

/**
 * Encodings whose bytewise order is the order of the values (I1): integers with the sign bit flipped, doubles with the sign folded
 * in, byte strings escaped (00 -> 00 FF) and ended by 00 01, so that a prefix sorts before its extensions and no value's encoding is a
 * prefix of another's.
 */
const SIGN_64 = 1n << 63n;
const ESCAPE = 0x00;
const ESCAPED_ZERO = 0xff;
const TERMINATOR = 0x01;

export function writeOrderedI64(writer: ByteWriter, value: bigint): void {
  writer.u64(BigInt.asUintN(64, value) ^ SIGN_64);
}

export function readOrderedI64(reader: ByteReader): bigint {
  return BigInt.asIntN(64, reader.u64() ^ SIGN_64);
}

export function writeOrderedI32(writer: ByteWriter, value: number): void {
  writer.u32((value ^ 0x80000000) >>> 0);
}

export function readOrderedI32(reader: ByteReader): number {
  return (reader.u32() ^ 0x80000000) | 0;
}

export function writeOrderedF64(writer: ByteWriter, value: number): void {
  const bits = doubleBits(value === 0 ? 0 : value);
  writer.u64(bits >= SIGN_64 ? BigInt.asUintN(64, ~bits) : bits | SIGN_64);
}

export function readOrderedF64(reader: ByteReader): number {
  const bits = reader.u64();
  return bitsDouble(bits >= SIGN_64 ? bits ^ SIGN_64 : BigInt.asUintN(64, ~bits));
}

export function writeOrderedBytes(writer: ByteWriter, bytes: Uint8Array): void {
  for (const byte of bytes) {
    writer.u8(byte);
    if (byte === ESCAPE) writer.u8(ESCAPED_ZERO);
  }
  writer.u8(ESCAPE).u8(TERMINATOR);
}

export function readOrderedBytes(reader: ByteReader): Uint8Array {
  const bytes: number[] = [];
  for (;;) {
    const byte = reader.u8();
    if (byte !== ESCAPE) {
      bytes.push(byte);
      continue;
    }
    const mark = reader.u8();
    if (mark === TERMINATOR) return Uint8Array.from(bytes);
    if (mark !== ESCAPED_ZERO) throw corrupt("an escaped byte string");
    bytes.push(ESCAPE);
  }
}

const scratch = new DataView(new ArrayBuffer(8));

function doubleBits(value: number): bigint {
  scratch.setFloat64(0, value);
  return scratch.getBigUint64(0);
}

function bitsDouble(bits: bigint): number {
  scratch.setBigUint64(0, bits);
  return scratch.getFloat64(0);
}

import { corrupt, type ByteReader } from "./byte-reader.ts";
import type { ByteWriter } from "./byte-writer.ts";

/**
 * Encodings whose bytewise order is the order of the values (I1): integers with the sign bit flipped, doubles with the sign folded
 * in, byte strings escaped (00 -> 00 FF) and ended by 00 01, so that a prefix sorts before its extensions and no value's encoding is a
 * prefix of another's.
 */
const SIGN_64 = 1n << 63n;
/** Below it a high half leaves the whole within 2^53. */
const EXACT_HIGH = 2 ** 21;
const ESCAPE = 0x00;
const ESCAPED_ZERO = 0xff;
const TERMINATOR = 0x01;
const ZERO = Uint8Array.of(0);
const SHORT_TEXT_LENGTH = 64;
const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export function writeOrderedI64(writer: ByteWriter, value: bigint): void {
  writer.orderedI64(value);
}

export function readOrderedI64(reader: ByteReader): bigint {
  const high = readOrderedI32(reader);
  const low = reader.u32();
  // One number and one bigint of it as long as it is exact.
  return high >= -EXACT_HIGH && high < EXACT_HIGH ? BigInt(high * 2 ** 32 + low) : (BigInt(high) << 32n) | BigInt(low);
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

/** As `writeOrderedBytes` of the text's UTF-8. */
export function writeOrderedText(writer: ByteWriter, text: string): void {
  // ASCII without zero: its bytes are its codes, nothing to escape.
  if (text.length > SHORT_TEXT_LENGTH || !writer.plainText(text, ESCAPE + 1)) return writeOrderedBytes(writer, encoder.encode(text));
  writer.u8(ESCAPE).u8(TERMINATOR);
}

export function readOrderedBytes(reader: ByteReader): Uint8Array {
  const parts: Uint8Array[] = [];
  for (;;) {
    parts.push(reader.raw(reader.distanceTo(ESCAPE)));
    reader.u8();
    const mark = reader.u8();
    if (mark === TERMINATOR) return joined(parts);
    if (mark !== ESCAPED_ZERO) throw corrupt("an escaped byte string");
    parts.push(ZERO);
  }
}

export function readOrderedText(reader: ByteReader): string {
  const count = reader.distanceTo(ESCAPE);
  if (reader.peek(count + 1) === TERMINATOR) {
    const text = reader.textOf(count);
    reader.raw(2);
    return text;
  }
  const bytes = readOrderedBytes(reader);
  try {
    return decoder.decode(bytes);
  } catch {
    throw corrupt("text is not UTF-8");
  }
}

/** A copy, so that a key does not keep the message it came in. */
function joined(parts: readonly Uint8Array[]): Uint8Array {
  if (parts.length === 1) return Uint8Array.from(parts[0]!);
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
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

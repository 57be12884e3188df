import type { Clock } from "./clock.ts";
import { ConcordError } from "./errors.ts";
import type { Random } from "./random.ts";

declare const brand: unique symbol;
type Brand<Base, Name extends string> = Base & { readonly [brand]: Name };

/** A client-made id of a transaction or batch: UUIDv7 as 32 lower-case hex digits. Its first 48 bits are its Unix time in ms (TXD7). */
export type TimeId = Brand<string, "TimeId">;
export const TIME_ID_BYTES = 16;

export function newTimeId(clock: Clock, random: Random): TimeId {
  return toHex(newTimeIdBytes(clock, random)) as TimeId;
}

/** The bytes of a new id, as they are sent. */
export function newTimeIdBytes(clock: Clock, random: Random): Uint8Array {
  const bytes = random.bytes(TIME_ID_BYTES);
  let ms = clock.nowMs();
  for (let i = 5; i >= 0; i -= 1) {
    bytes[i] = ms % 256;
    ms = Math.floor(ms / 256);
  }
  bytes[6] = 0x70 | (bytes[6]! & 0x0f);
  bytes[8] = 0x80 | (bytes[8]! & 0x3f);
  return bytes;
}

/** Decodes 16 bytes from the wire; refuses anything that is not a UUIDv7 (MALFORMED_REQUEST). */
export function timeIdFromBytes(bytes: Uint8Array): TimeId {
  const isVersion7 = bytes.length === TIME_ID_BYTES && (bytes[6]! & 0xf0) === 0x70 && (bytes[8]! & 0xc0) === 0x80;
  if (!isVersion7) {
    throw new ConcordError("MALFORMED_REQUEST", `an id must be the 16 bytes of a UUIDv7, got ${bytes.length} bytes`);
  }
  return toHex(bytes) as TimeId;
}

export function timeIdToBytes(id: TimeId): Uint8Array {
  return fromHex(id);
}

/** The Unix time in milliseconds at which the id's maker made it. */
export function timeIdMs(id: TimeId): number {
  return Number.parseInt(id.slice(0, 12), 16);
}

const HEX: readonly string[] = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** Lower-case. By the engine where it can (ES2026): it makes one text instead of one per byte. */
export const toHex: (bytes: Uint8Array) => string =
  "toHex" in Uint8Array.prototype ? (bytes) => (bytes as Uint8Array & { toHex(): string }).toHex() : hexOf;

function hexOf(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += HEX[byte];
  return text;
}

/** The value of a hex digit by its character code; 0 for every other code. */
const DIGITS = Uint8Array.from({ length: 128 }, (_, code) =>
  Math.max(0, "0123456789abcdef".indexOf(String.fromCharCode(code).toLowerCase())),
);

/** Of text that is known to be hex digits. */
export function fromHex(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length / 2);
  for (let i = 0; i < bytes.length; i += 1) bytes[i] = hexByteAt(text, 2 * i);
  return bytes;
}

/** The byte that two hex digits of a text stand for. */
export function hexByteAt(text: string, at: number): number {
  return (DIGITS[text.charCodeAt(at)]! << 4) | DIGITS[text.charCodeAt(at + 1)]!;
}

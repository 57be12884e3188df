import { fromHex, unreachable } from "@concord/runtime";

/** Tokens are unsigned 64-bit numbers. */
export const TOKEN_MAX = (1n << 64n) - 1n;

/** A typed value as the ports lib has it (`CellValue`); said here again because servers and clients share one token function. */
export type TokenValue =
  | { readonly kind: "bigint" | "timestamp"; readonly value: bigint }
  | { readonly kind: "int" | "double"; readonly value: number }
  | { readonly kind: "text" | "uuid"; readonly value: string }
  | { readonly kind: "blob"; readonly value: Uint8Array }
  | { readonly kind: "boolean"; readonly value: boolean };

/** First byte of what is hashed. Never change or reuse one: tokens decide where rows are locked. */
const TYPE_TAGS = { bigint: 1, int: 2, text: 3, blob: 4, boolean: 5, double: 6, timestamp: 7, uuid: 8 } as const;

/**
 * The token of an entity id: the same type and value give the same token in every table, so master and detail rows of one entity
 * meet in one group (TX2). FNV-1a 64 over a type byte and the value's bytes, finished with MurmurHash3's fmix64 to spread near ids.
 */
export function tokenOf(value: TokenValue): bigint {
  return finish(fnv1a64(TYPE_TAGS[value.kind], bytesOf(value)));
}

function bytesOf(value: TokenValue): Uint8Array {
  switch (value.kind) {
    case "bigint":
    case "timestamp":
      return eightBytes((view) => view.setBigInt64(0, value.value));
    case "int":
      return new Uint8Array([value.value >> 24, value.value >> 16, value.value >> 8, value.value]);
    case "text":
      return new TextEncoder().encode(value.value);
    case "blob":
      return value.value;
    case "boolean":
      return new Uint8Array([value.value ? 1 : 0]);
    case "double":
      return eightBytes((view) => view.setFloat64(0, value.value));
    case "uuid":
      return fromHex(value.value);
    default:
      return unreachable(value);
  }
}

function eightBytes(fill: (view: DataView) => void): Uint8Array {
  const bytes = new Uint8Array(8);
  fill(new DataView(bytes.buffer));
  return bytes;
}

/** FNV-1a 64 in two 32-bit halves: the prime is 2^40 + 0x1b3, so every partial product stays below 2^53. */
export function fnv1a64(firstByte: number | undefined, bytes: Uint8Array): bigint {
  let high = 0xcbf29ce4;
  let low = 0x84222325;
  const mix = (byte: number): void => {
    low = (low ^ byte) >>> 0;
    const product = low * 0x1b3;
    const carry = Math.floor(product / 0x1_0000_0000);
    high = (high * 0x1b3 + carry + ((low << 8) >>> 0)) % 0x1_0000_0000;
    low = product % 0x1_0000_0000;
  };
  if (firstByte !== undefined) mix(firstByte);
  for (const byte of bytes) mix(byte);
  return (BigInt(high) << 32n) | BigInt(low);
}

function finish(hash: bigint): bigint {
  let mixed = hash ^ (hash >> 33n);
  mixed = BigInt.asUintN(64, mixed * 0xff51afd7ed558ccdn);
  mixed ^= mixed >> 33n;
  mixed = BigInt.asUintN(64, mixed * 0xc4ceb9fe1a85ec53n);
  return mixed ^ (mixed >> 33n);
}

import { assert } from "@concord/runtime";
import type { IdHash } from "./api.ts";

/** An id in memory: four 32-bit words, the first the most significant, so that numbers order as bytes do. */
export const ID_WORDS = 4;
export const PACKED_ID_BYTES = 16;
const UUID_TEXT_BYTES = 36;
const HYPHEN = 0x2d;
const NOT_HEX = 255;
const NO_BYTES = new Uint8Array(0);

const HEX_VALUES = hexValues();

function hexValues(): Uint8Array {
  const values = new Uint8Array(256).fill(NOT_HEX);
  for (let digit = 0; digit < 16; digit += 1) {
    const text = digit.toString(16);
    values[text.charCodeAt(0)] = digit;
    values[text.toUpperCase().charCodeAt(0)] = digit;
  }
  return values;
}

/** Uses of one key: a given id, an equal content and a source of that name are different things. */
export interface IdKeys {
  readonly given: Uint8Array;
  readonly content: Uint8Array;
  readonly source: Uint8Array;
}

export function idKeys(key: Uint8Array): IdKeys {
  assert(key.length > 0, "DDD6: the uses of a key differ in a byte of it");
  const content = Uint8Array.from(key);
  content[0]! ^= 1;
  const source = Uint8Array.from(key);
  source[0]! ^= 2;
  return { given: Uint8Array.from(key), content, source };
}

/** Writes the packed form of a given id at `at`: a UUID's own bytes, else a keyed hash (DDD6). */
export function packGiven(id: Uint8Array, keys: IdKeys, hash: IdHash, words: Uint32Array, at: number): void {
  if (!packUuid(id, words, at)) packBytes(hash(keys.given, id), words, at);
}

/** Null is another content than no bytes: it has the hash that an empty id would have, and no id is empty. */
export function packContent(value: Uint8Array | null, keys: IdKeys, hash: IdHash, words: Uint32Array, at: number): void {
  packBytes(value === null ? hash(keys.given, NO_BYTES) : hash(keys.content, value), words, at);
}

/** The id in the form in which equal ids have equal bytes: a UUID's text in lower case. */
export function normalId(id: Uint8Array): Uint8Array {
  if (id.length !== UUID_TEXT_BYTES || !packUuid(id, scratch, 0)) return id;
  let isLower = true;
  for (let at = 0; at < id.length; at += 1) isLower &&= id[at]! < 0x41 || id[at]! > 0x46;
  if (isLower) return id;
  return id.map((byte) => (byte >= 0x41 && byte <= 0x46 ? byte | 0x20 : byte));
}

const scratch = new Uint32Array(ID_WORDS);

/** False: not the canonical text of a UUID (8-4-4-4-12 hex digits, any case); what was written is to be overwritten. */
function packUuid(text: Uint8Array, words: Uint32Array, at: number): boolean {
  if (text.length !== UUID_TEXT_BYTES) return false;
  if (text[8] !== HYPHEN || text[13] !== HYPHEN || text[18] !== HYPHEN || text[23] !== HYPHEN) return false;
  let digits = 0;
  let word = 0;
  for (let from = 0; from < UUID_TEXT_BYTES; from += 1) {
    if (from === 8 || from === 13 || from === 18 || from === 23) continue;
    const value = HEX_VALUES[text[from]!]!;
    if (value === NOT_HEX) return false;
    word = (word << 4) | value;
    digits += 1;
    if ((digits & 7) === 0) words[at + (digits >>> 3) - 1] = word >>> 0;
  }
  return true;
}

/** 16 bytes as four words. */
export function packBytes(bytes: Uint8Array, words: Uint32Array, at: number, from = 0): void {
  assert(from + PACKED_ID_BYTES <= bytes.length, "DDD6: an id has 128 bits");
  assert(at + ID_WORDS <= words.length, "an id is packed where there is a place for it");
  for (let word = 0; word < ID_WORDS; word += 1) {
    const byte = from + word * 4;
    words[at + word] = ((bytes[byte]! << 24) | (bytes[byte + 1]! << 16) | (bytes[byte + 2]! << 8) | bytes[byte + 3]!) >>> 0;
  }
}

/** `count` ids from word `at` on, as bytes in order. */
export function unpackIds(words: Uint32Array, at = 0, count = (words.length - at) / ID_WORDS): Uint8Array {
  assert(Number.isInteger(count), "ids are whole");
  assert(at + count * ID_WORDS <= words.length, "ids are unpacked where there are some");
  const bytes = new Uint8Array(count * PACKED_ID_BYTES);
  const view = new DataView(bytes.buffer);
  for (let word = 0; word < count * ID_WORDS; word += 1) view.setUint32(word * 4, words[at + word]!);
  return bytes;
}

export function packIds(bytes: Uint8Array): Uint32Array {
  assert(bytes.length % PACKED_ID_BYTES === 0, "packed ids are whole");
  const words = new Uint32Array(bytes.length / 4);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let word = 0; word < words.length; word += 1) words[word] = view.getUint32(word * 4);
  return words;
}

/** Spreads an id over 32 bits. Seeded, because clients choose UUIDs: without the seed they could choose ones that collide. */
export function mixId(words: Uint32Array, at: number, seed: number): number {
  let hash = seed;
  for (let word = at; word < at + ID_WORDS; word += 1) {
    hash = Math.imul(hash ^ words[word]!, 0x85ebca6b);
    hash = Math.imul(hash ^ (hash >>> 15), 0xc2b2ae35);
    hash ^= hash >>> 13;
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x7feb352d);
  return (hash ^ (hash >>> 15)) >>> 0;
}

/** Below 0, 0 or above 0, as the ids' bytes compare. */
export function compareIds(left: Uint32Array, leftAt: number, right: Uint32Array, rightAt: number): number {
  for (let word = 0; word < ID_WORDS; word += 1) {
    const difference = left[leftAt + word]! - right[rightAt + word]!;
    if (difference !== 0) return difference;
  }
  return 0;
}

import { assert, ConcordError } from "@concord/runtime";
import { GUID_MAX } from "./layout.ts";
import { TEXT_LENGTH } from "./limits.ts";

const ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const VALUES: ReadonlyMap<string, bigint> = new Map(Array.from(ALPHABET, (letter, value) => [letter, BigInt(value)]));
const LETTER_BITS = 5n;

/** 13 letters of Crockford's base 32; texts sort as their ids (I6). */
export function guidToText(guid: bigint): string {
  assert(guid >= 0n && guid <= GUID_MAX, "an id has 63 bits");
  let text = "";
  for (let rest = guid; text.length < TEXT_LENGTH; rest >>= LETTER_BITS) text = ALPHABET[Number(rest & 31n)]! + text;
  return text;
}

/** MALFORMED_REQUEST for everything that `guidToText` does not write: one id has one text, so texts can be compared in place of ids. */
export function guidFromText(text: string): bigint {
  if (text.length !== TEXT_LENGTH) throw malformed(text);
  let guid = 0n;
  for (const letter of text) {
    const value = VALUES.get(letter);
    if (value === undefined) throw malformed(text);
    guid = (guid << LETTER_BITS) | value;
  }
  if (guid > GUID_MAX) throw malformed(text);
  return guid;
}

function malformed(text: string): ConcordError {
  return new ConcordError("MALFORMED_REQUEST", `${JSON.stringify(text.slice(0, 2 * TEXT_LENGTH))} is no id: 13 letters of ${ALPHABET}`);
}

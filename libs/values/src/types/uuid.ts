import type { ByteReader, ByteWriter } from "@concord/codec";
import { fromHex, toHex } from "@concord/runtime";
import type { CellTypeOf } from "../cell-type.ts";
import { asItIs, compareTexts, malformed, noProblem, otherLiteral } from "./shared.ts";

const BYTES = 16;
const CONTENT = /^[0-9a-f]{32}$/;
/** As a uuid is nearly always written. */
const USUAL = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const GIVEN = /^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$/i;

/** The value of a hex digit by its character code; NO_DIGIT for every other code. */
const NO_DIGIT = 16;
const DIGITS = Uint8Array.from({ length: 128 }, (_, code) => {
  const digit = "0123456789abcdef".indexOf(String.fromCharCode(code).toLowerCase());
  return digit < 0 ? NO_DIGIT : digit;
});
const DASH = 0x2d;
const USUAL_LENGTH = 36;

/** The bytes of a uuid with its four dashes; undefined for every other text. */
function bytesOfUsual(text: string): Uint8Array | undefined {
  if (text.length !== USUAL_LENGTH) return undefined;
  const bytes = new Uint8Array(BYTES);
  let from = 0;
  for (let at = 0; at < BYTES; at += 1) {
    if ((at === 4 || at === 6 || at === 8 || at === 10) && text.charCodeAt(from++) !== DASH) return undefined;
    const high = DIGITS[text.charCodeAt(from)] ?? NO_DIGIT;
    const low = DIGITS[text.charCodeAt(from + 1)] ?? NO_DIGIT;
    if (high === NO_DIGIT || low === NO_DIGIT) return undefined;
    bytes[at] = (high << 4) | low;
    from += 2;
  }
  return bytes;
}

const write = (writer: ByteWriter, content: string): void => void writer.hex(content);
const read = (reader: ByteReader): string => toHex(reader.raw(BYTES));

/** 32 lower-case hex digits. */
export const uuid: CellTypeOf<"uuid"> = {
  tag: 8,
  takes: "a uuid as string or 16 bytes",
  compare: compareTexts,
  bytesOf: () => BYTES,
  problemOf: (content) => (CONTENT.test(content) ? undefined : "is not 32 lower-case hex digits"),
  keyProblemOf: noProblem,
  canonical: asItIs,
  keyText: asItIs,
  writeKey: write,
  readKey: read,
  writeCell: write,
  readCell: read,
  tokenBytes: fromHex,
  toWire: (content) => ({ uuidValue: fromHex(content) }),
  fromWire: ({ uuidValue }) => {
    if (uuidValue.length !== BYTES) throw malformed(`a uuid has ${BYTES} bytes, not ${uuidValue.length}`);
    return toHex(uuidValue);
  },
  fromLiteral: (literal) => (literal.kind === "uuid" ? literal.value : otherLiteral(literal)),
  fromJavaScript: (value) => {
    if (value instanceof Uint8Array) return value.length === BYTES ? toHex(value) : undefined;
    if (typeof value !== "string") return undefined;
    if (USUAL.test(value)) return value.slice(0, 8) + value.slice(9, 13) + value.slice(14, 18) + value.slice(19, 23) + value.slice(24);
    return GIVEN.test(value) ? value.replaceAll("-", "").toLowerCase() : undefined;
  },
  wireOf: (value) => {
    const bytes = typeof value === "string" ? bytesOfUsual(value) : undefined;
    if (bytes !== undefined) return { uuidValue: bytes };
    const content = uuid.fromJavaScript(value);
    return content === undefined ? undefined : uuid.toWire(content);
  },
  toJavaScript: (content) => content.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-"),
};

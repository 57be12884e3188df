import { compareBytes, corrupt, type ByteReader, type ByteWriter } from "@concord/codec";
import { toHex } from "@concord/runtime";
import type { CellTypeOf } from "../cell-type.ts";
import { asItIs, malformed, noProblem, otherLiteral } from "./shared.ts";

const V4_BYTES = 4;
const V6_BYTES = 16;
const V6_GROUPS = 8;
const V4_TEXT = /^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}$/;
const GROUP = /^[0-9a-f]{1,4}$/i;
const LENGTHS = `has neither ${V4_BYTES} nor ${V6_BYTES} bytes`;

/**
 * An address of 4 or 16 bytes. An IPv4 address mapped into IPv6 is that IPv4 address, as in Java, whose clients of Cassandra cannot tell
 * them apart. IPv4 sorts before IPv6; Cassandra compares bytes only.
 */
export const inet: CellTypeOf<"inet"> = {
  tag: 11,
  takes: "an IP address as string or 4 or 16 bytes",
  compare: (left, right) => left.length - right.length || compareBytes(left, right),
  bytesOf: (content) => content.length,
  problemOf: (content) => (isAddress(content) ? undefined : LENGTHS),
  keyProblemOf: noProblem,
  canonical: unmapped,
  keyText: toHex,
  writeKey: write,
  readKey: read,
  writeCell: write,
  readCell: read,
  tokenBytes: asItIs,
  toWire: (content) => ({ inetValue: content }),
  fromWire: ({ inetValue }) => {
    if (!isAddress(inetValue)) throw malformed(`an inet ${LENGTHS}`);
    return unmapped(new Uint8Array(inetValue));
  },
  fromLiteral: (literal) => {
    if (literal.kind !== "text") return otherLiteral(literal);
    return addressOf(literal.value) ?? { refused: "is no IP address" };
  },
  fromJavaScript: (value) => {
    if (typeof value === "string") return addressOf(value);
    return value instanceof Uint8Array && isAddress(value) ? new Uint8Array(value) : undefined;
  },
  toJavaScript: (content) => (content.length === V4_BYTES ? content.join(".") : v6Text(content)),
};

function isAddress(bytes: Uint8Array): boolean {
  return bytes.length === V4_BYTES || bytes.length === V6_BYTES;
}

function isMapped(bytes: Uint8Array): boolean {
  return bytes.length === V6_BYTES && bytes.subarray(0, 10).every((byte) => byte === 0) && bytes[10] === 0xff && bytes[11] === 0xff;
}

function unmapped(bytes: Uint8Array): Uint8Array {
  return isMapped(bytes) ? bytes.slice(V6_BYTES - V4_BYTES) : bytes;
}

/** The number of bytes first: equal addresses, equal bytes; IPv4 first. */
function write(writer: ByteWriter, content: Uint8Array): void {
  writer.u8(content.length).raw(content);
}

function read(reader: ByteReader): Uint8Array {
  const length = reader.u8();
  if (length !== V4_BYTES && length !== V6_BYTES) throw corrupt(`an address of ${length} bytes`);
  const bytes = new Uint8Array(reader.raw(length));
  if (isMapped(bytes)) throw corrupt("an IPv4 address in IPv6");
  return bytes;
}

function addressOf(text: string): Uint8Array | undefined {
  if (!text.includes(":")) return v4Of(text);
  const bytes = v6Of(text);
  return bytes === undefined ? undefined : unmapped(bytes);
}

/** Four decimal numbers without leading zeros, which some read as octal. */
function v4Of(text: string): Uint8Array | undefined {
  return V4_TEXT.test(text) ? Uint8Array.from(text.split("."), Number) : undefined;
}

/** RFC 4291 2.2: eight groups, "::" for at least one of zeros, the last two perhaps as IPv4. No zone. */
function v6Of(text: string): Uint8Array | undefined {
  const halves = text.split("::");
  if (halves.length > 2) return undefined;
  const [head, tail] = halves.map((half, at) => groupsOf(half, at === halves.length - 1));
  if (head === undefined || (halves.length === 2 && tail === undefined)) return undefined;
  const zeros = V6_GROUPS - head.length - (tail?.length ?? 0);
  if (tail === undefined ? zeros !== 0 : zeros < 1) return undefined;
  const bytes = new Uint8Array(V6_BYTES);
  const view = new DataView(bytes.buffer);
  [...head, ...Array.from({ length: zeros }, () => 0), ...(tail ?? [])].forEach((group, at) => view.setUint16(2 * at, group));
  return bytes;
}

function groupsOf(half: string, isLast: boolean): number[] | undefined {
  if (half === "") return [];
  const texts = half.split(":");
  const v4 = isLast ? v4Of(texts.at(-1)!) : undefined;
  if (v4 !== undefined) texts.pop();
  if (!texts.every((text) => GROUP.test(text))) return undefined;
  const groups = texts.map((text) => Number.parseInt(text, 16));
  return v4 === undefined ? groups : [...groups, v4[0]! * 256 + v4[1]!, v4[2]! * 256 + v4[3]!];
}

/** RFC 5952: lower case, no leading zeros, "::" for the first longest run of at least two groups of zeros. */
function v6Text(bytes: Uint8Array): string {
  const groups = Array.from({ length: V6_GROUPS }, (_, at) => (bytes[2 * at]! * 256 + bytes[2 * at + 1]!).toString(16));
  let longest = { from: 0, length: 1 };
  for (let from = 0; from < V6_GROUPS; from += 1) {
    let length = 0;
    while (groups[from + length] === "0") length += 1;
    if (length > longest.length) longest = { from, length };
  }
  if (longest.length < 2) return groups.join(":");
  return `${groups.slice(0, longest.from).join(":")}::${groups.slice(longest.from + longest.length).join(":")}`;
}

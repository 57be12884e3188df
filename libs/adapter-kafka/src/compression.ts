import { gunzipSync, gzipSync, zstdCompressSync, zstdDecompressSync } from "node:zlib";
import { DECOMPRESSED_BYTES_MAX } from "./limits.ts";

const XERIAL_MAGIC = Buffer.from([0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0x00]);
const XERIAL_HEADER_BYTES = 16;
const LZ4_MAGIC = 0x184d2204;

export interface Compressed {
  readonly codec: number;
  readonly bytes: Buffer;
}

/** Records as they are while they fit into `bytesMax`; beyond that by gzip, which every client reads, else by zstd. */
export function compressedToFit(bytes: Buffer, bytesMax: number): Compressed {
  if (bytes.length <= bytesMax) return { codec: 0, bytes };
  const gzip = gzipSync(bytes);
  return gzip.length <= bytesMax ? { codec: 1, bytes: gzip } : { codec: 4, bytes: zstdCompressSync(bytes) };
}

/** Records as they were before a producer compressed them. Throws on damage, on too many bytes and on an unknown codec. */
export function decompress(codec: number, bytes: Buffer): Buffer {
  switch (codec) {
    case 0:
      return bytes;
    case 1:
      return gunzipSync(bytes, { maxOutputLength: DECOMPRESSED_BYTES_MAX });
    case 2:
      return unsnap(bytes);
    case 3:
      return unlz4(bytes);
    case 4:
      return zstdDecompressSync(bytes, { maxOutputLength: DECOMPRESSED_BYTES_MAX });
    default:
      throw new Error(`no codec has the number ${codec}`);
  }
}

/** Java's producers frame snappy blocks (xerial); others send one block alone. */
function unsnap(bytes: Buffer): Buffer {
  if (!bytes.subarray(0, XERIAL_MAGIC.length).equals(XERIAL_MAGIC)) return unsnapBlock(bytes);
  const blocks: Buffer[] = [];
  let total = 0;
  for (let at = XERIAL_HEADER_BYTES; at < bytes.length;) {
    const length = bytes.readInt32BE(at);
    if (length < 0 || at + 4 + length > bytes.length) throw new Error("a snappy block is cut");
    const block = unsnapBlock(bytes.subarray(at + 4, at + 4 + length));
    total = bounded(total + block.length);
    blocks.push(block);
    at += 4 + length;
  }
  return Buffer.concat(blocks);
}

function unsnapBlock(bytes: Buffer): Buffer {
  let [length, at, shift] = [0, 0, 0];
  for (; ; shift += 7) {
    const byte = byteAt(bytes, at++);
    length += (byte & 0x7f) * 2 ** shift;
    if (byte < 0x80) break;
    if (shift > 28) throw new Error("a snappy block has no length");
  }
  const out = new Output(bounded(length));
  while (at < bytes.length) {
    const tag = byteAt(bytes, at++);
    const kind = tag & 3;
    if (kind === 0) {
      const extra = Math.max(0, (tag >> 2) - 59);
      const count = (extra === 0 ? tag >> 2 : littleEndian(bytes, at, extra)) + 1;
      at += extra;
      out.literal(bytes, at, count);
      at += count;
    } else {
      const width = kind === 3 ? 4 : kind;
      const low = littleEndian(bytes, at, width);
      at += width;
      if (kind === 1) out.copy(((tag >> 5) << 8) | low, ((tag >> 2) & 7) + 4);
      else out.copy(low, (tag >> 2) + 1);
    }
  }
  return out.finish();
}

/** A frame of LZ4 with its blocks; checksums are left to the batch's own. */
function unlz4(bytes: Buffer): Buffer {
  if (bytes.length < 7 || bytes.readUInt32LE(0) !== LZ4_MAGIC) throw new Error("no LZ4 frame");
  const flags = bytes[4]!;
  const [hasBlockChecksum, hasSize, hasDictionary] = [(flags & 16) !== 0, (flags & 8) !== 0, (flags & 1) !== 0];
  let at = 7 + (hasSize ? 8 : 0) + (hasDictionary ? 4 : 0);
  const out = new Output();
  for (;;) {
    const size = littleEndian(bytes, at, 4);
    at += 4;
    if (size === 0) return out.finish();
    const length = size % 2 ** 31;
    if (at + length > bytes.length) throw new Error("an LZ4 block is cut");
    if (size >= 2 ** 31) out.literal(bytes, at, length);
    else unlz4Block(bytes.subarray(at, at + length), out);
    at += length + (hasBlockChecksum ? 4 : 0);
  }
}

function unlz4Block(bytes: Buffer, out: Output): void {
  let at = 0;
  const extended = (nibble: number): number => {
    let count = nibble;
    for (let byte = 255; nibble === 15 && byte === 255;) {
      byte = byteAt(bytes, at++);
      count += byte;
    }
    return count;
  };
  while (at < bytes.length) {
    const token = byteAt(bytes, at++);
    const literals = extended(token >> 4);
    out.literal(bytes, at, literals);
    at += literals;
    if (at >= bytes.length) return;
    const distance = littleEndian(bytes, at, 2);
    at += 2;
    out.copy(distance, extended(token & 15) + 4);
  }
}

/** Grows as needed; copies may overlap what they write. */
class Output {
  #bytes: Buffer;
  #length = 0;
  readonly #expected: number | undefined;

  constructor(expected?: number) {
    this.#expected = expected;
    this.#bytes = Buffer.allocUnsafe(expected ?? 64 * 1024);
  }

  literal(bytes: Buffer, from: number, count: number): void {
    if (from + count > bytes.length) throw new Error("compressed bytes are cut");
    this.#reserve(count);
    bytes.copy(this.#bytes, this.#length, from, from + count);
    this.#length += count;
  }

  copy(distance: number, count: number): void {
    if (distance === 0 || distance > this.#length) throw new Error("a copy begins before the first byte");
    this.#reserve(count);
    for (let left = count; left > 0; left -= 1, this.#length += 1) this.#bytes[this.#length] = this.#bytes[this.#length - distance]!;
  }

  finish(): Buffer {
    if (this.#expected !== undefined && this.#length !== this.#expected) throw new Error("decompressed bytes are missing");
    return this.#bytes.subarray(0, this.#length);
  }

  #reserve(count: number): void {
    const needed = bounded(this.#length + count);
    if (needed <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.min(DECOMPRESSED_BYTES_MAX, Math.max(needed, this.#bytes.length * 2)));
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
  }
}

function byteAt(bytes: Buffer, at: number): number {
  const byte = bytes[at];
  if (byte === undefined) throw new Error("compressed bytes are cut");
  return byte;
}

function littleEndian(bytes: Buffer, at: number, width: number): number {
  let value = 0;
  for (let index = 0; index < width; index += 1) value += byteAt(bytes, at + index) * 2 ** (8 * index);
  return value;
}

function bounded(bytes: number): number {
  if (bytes > DECOMPRESSED_BYTES_MAX) throw new Error(`more than ${DECOMPRESSED_BYTES_MAX} bytes decompressed`);
  return bytes;
}

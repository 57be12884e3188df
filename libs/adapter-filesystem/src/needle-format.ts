// Version 1 of the formats in an epoch's folder of segments: needles, removals, the bounds of a closed epoch.
import { ByteReader, ByteWriter, corrupt } from "@concord/codec";
import type { Checksum } from "@concord/runtime";
import { withChecksum, withoutChecksum } from "./blob-format.ts";

const NEEDLE_MAGIC = 0x434e444c;
const REMOVAL_MAGIC = 0x434e524d;
const BOUNDS_MAGIC = 0x434e4244;
const INDEX_MAGIC = 0x434e4958;
const FORMAT_VERSION = 1;

export const NEEDLE_PREFIX_BYTES = 33;
export const REMOVAL_BYTES = 21;
/** The first byte of every prefix: what a search looks for. */
export const NEEDLE_FIRST_BYTE = NEEDLE_MAGIC >>> 24;

/** Stands before the blob, whose bytes are those of a file of its own. */
export interface NeedlePrefix {
  readonly epoch: number;
  readonly sequence: number;
  /** The prefix's own offset: it tells a real prefix from object bytes that look like one. */
  readonly offset: number;
  /** Where its group begins: what was written and synced with it. */
  readonly groupOffset: number;
  /** Of the blob behind it. */
  readonly lengthBytes: number;
}

export function encodePrefix(prefix: NeedlePrefix, checksum: Checksum): Uint8Array {
  const content = new ByteWriter()
    .u32(NEEDLE_MAGIC)
    .u8(FORMAT_VERSION)
    .u32(prefix.epoch)
    .u64(BigInt(prefix.sequence))
    .u32(prefix.offset)
    .u32(prefix.groupOffset)
    .u32(prefix.lengthBytes)
    .finish();
  return withChecksum(content, checksum);
}

/** Undefined: no prefix of this epoch stands at `offset`. CORRUPT_DATA: it is of a newer format. */
export function decodePrefix(bytes: Uint8Array, epoch: number, offset: number, checksum: Checksum): NeedlePrefix | undefined {
  if (bytes.length < NEEDLE_PREFIX_BYTES || bytes[0] !== NEEDLE_FIRST_BYTE) return undefined;
  if (new ByteReader(bytes).u32() !== NEEDLE_MAGIC) return undefined;
  const content = withoutChecksum(bytes.subarray(0, NEEDLE_PREFIX_BYTES), checksum);
  if (content === undefined) return undefined;
  const reader = new ByteReader(content.subarray(4));
  const version = reader.u8();
  if (version !== FORMAT_VERSION) throw corrupt(`a needle of format ${version}, known is ${FORMAT_VERSION}`);
  const prefix = {
    epoch: reader.u32(),
    sequence: Number(reader.u64()),
    offset: reader.u32(),
    groupOffset: reader.u32(),
    lengthBytes: reader.u32(),
  };
  return prefix.epoch === epoch && prefix.offset === offset && prefix.groupOffset <= offset ? prefix : undefined;
}

export function encodeRemoval(epoch: number, sequence: number, checksum: Checksum): Uint8Array {
  return withChecksum(new ByteWriter().u32(REMOVAL_MAGIC).u8(FORMAT_VERSION).u32(epoch).u64(BigInt(sequence)).finish(), checksum);
}

/** The sequence of one record; undefined: it is torn or damaged, or another epoch's. CORRUPT_DATA: of a newer format. */
export function decodeRemoval(record: Uint8Array, epoch: number, checksum: Checksum): number | undefined {
  const content = record.length === REMOVAL_BYTES ? withoutChecksum(record, checksum) : undefined;
  const reader = content && new ByteReader(content);
  if (reader?.u32() !== REMOVAL_MAGIC) return undefined;
  const version = reader.u8();
  if (version !== FORMAT_VERSION) throw corrupt(`a removal of format ${version}, known is ${FORMAT_VERSION}`);
  return reader.u32() === epoch ? Number(reader.u64()) : undefined;
}

/** How long each segment was when the epoch was closed, by its number: nothing behind it belongs to the epoch. */
export type Bounds = ReadonlyMap<number, number>;

export function encodeBounds(bounds: Bounds, checksum: Checksum): Uint8Array {
  const writer = new ByteWriter().u32(BOUNDS_MAGIC).u8(FORMAT_VERSION).u32(bounds.size);
  for (const [segment, sizeBytes] of bounds) writer.u32(segment).u32(sizeBytes);
  return withChecksum(writer.finish(), checksum);
}

/** CORRUPT_DATA when they are not whole. */
export function decodeBounds(bytes: Uint8Array, checksum: Checksum): Bounds {
  const content = bytes.length > 4 ? withoutChecksum(bytes, checksum) : undefined;
  if (content === undefined) throw corrupt("the bounds of a closed epoch fail their checksum");
  const reader = new ByteReader(content);
  if (reader.u32() !== BOUNDS_MAGIC) throw corrupt("the bounds of a closed epoch are none");
  const version = reader.u8();
  if (version !== FORMAT_VERSION) throw corrupt(`bounds of format ${version}, known is ${FORMAT_VERSION}`);
  return new Map(Array.from({ length: reader.u32() }, () => [reader.u32(), reader.u32()] as const));
}

/** What a segment holds up to `next`. */
export interface SegmentIndex {
  readonly next: number;
  readonly needles: readonly { readonly sequence: number; readonly offset: number; readonly lengthBytes: number }[];
}

export interface SegmentName {
  readonly epoch: number;
  readonly segment: number;
}

const INDEXED_NEEDLE_BYTES = 16;
const WORD = 2 ** 32;

export function encodeSegmentIndex({ epoch, segment }: SegmentName, { next, needles }: SegmentIndex, checksum: Checksum): Uint8Array {
  const writer = new ByteWriter(needles.length * INDEXED_NEEDLE_BYTES + 64).u32(INDEX_MAGIC).u8(FORMAT_VERSION).u32(epoch).u32(segment);
  writer.u32(next).u32(needles.length);
  for (const { sequence, offset, lengthBytes } of needles)
    writer
      .u32(Math.floor(sequence / WORD))
      .u32(sequence % WORD)
      .u32(offset)
      .u32(lengthBytes);
  return withChecksum(writer.finish(), checksum);
}

/** Undefined: it is not whole, of another segment or of a newer format; the segment itself tells the same. */
export function decodeSegmentIndex(bytes: Uint8Array, { epoch, segment }: SegmentName, checksum: Checksum): SegmentIndex | undefined {
  const content = bytes.length > 4 ? withoutChecksum(bytes, checksum) : undefined;
  if (content === undefined) return undefined;
  const reader = new ByteReader(content);
  const known = reader.u32() === INDEX_MAGIC && reader.u8() === FORMAT_VERSION && reader.u32() === epoch && reader.u32() === segment;
  if (!known) return undefined;
  const next = reader.u32();
  const needles = Array.from({ length: reader.u32() }, () => {
    const sequence = reader.u32() * WORD + reader.u32();
    return { sequence, offset: reader.u32(), lengthBytes: reader.u32() };
  });
  return { next, needles };
}

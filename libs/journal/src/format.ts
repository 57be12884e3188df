import type { Checksum } from "@concord/runtime";
import type { JournalRecord } from "./api.ts";

/*
 * Version 1, big-endian. A checksum covers everything behind it.
 *
 * segment header (64 bytes):
 *   0 magic "CNCDJRNL" | 8 u32 checksum | 12 u8 version | 13 u8 flags | 14 u16 zero | 16 id (8 random bytes) | 24 u64 ordinal
 *   32 u64 first sequence | 40 u64 previous ordinal | 48 u32 previous end | 52 u32 zero | 56 u64 sequence of the last record before it
 *   flags: 1 = there is a previous segment, 2 = there is a record before it, 4 = prepared: zeros up to the file's end, and an end mark
 *
 * frame: 0 u32 checksum | 4 u8 version | 5 u8 kind | 6 u16 zero | 8 u32 payload length | 12 segment id | 20 u64 sequence
 *   28 u32 count | 32 u32 offset at which the frame's group begins | 36 payload
 *
 * end mark, behind the last group of a prepared segment, overwritten by the next one:
 *   0 u32 checksum | 4 u8 version | 5 u8 kind | 6 u16 zero | 8 u32 its own offset | 12 segment id
 */
export const FORMAT_VERSION = 1;
export const SEGMENT_HEADER_BYTES = 64;
export const FRAME_HEADER_BYTES = 36;
export const SEGMENT_ID_BYTES = 8;
/** Where a frame holds its segment's id: what a search for frames looks for. */
export const FRAME_ID_AT = 12;
/** Shorter than a frame's header: the frame that follows overwrites all of it. */
export const END_MARK_BYTES = 20;

const MAGIC = new TextEncoder().encode("CNCDJRNL");
const CHECKSUM_AT = 8;
const HAS_PREVIOUS = 1;
const HAS_RECORDS_BEFORE = 2;
const IS_PREPARED = 4;
const KINDS: readonly JournalRecord["kind"][] = ["record", "checkpoint"];
const END_MARK_KIND = 255;

export interface SegmentHeader {
  /** Random: neither recycled bytes nor a payload that looks like a frame is taken for one of this segment. */
  readonly id: Uint8Array;
  readonly ordinal: number;
  readonly firstSequence: bigint;
  /** The segment before it and where that one validly ended: bytes behind are of a group whose sync failed, not damage. */
  readonly previous: { readonly ordinal: number; readonly end: number } | undefined;
  readonly lastSequenceBefore: bigint | undefined;
  /** Its file was zeros before it held a record: behind the last group lie an end mark and zeros (I10). */
  readonly isPrepared: boolean;
}

export interface FrameHeader {
  readonly kind: JournalRecord["kind"];
  readonly length: number;
  readonly sequence: bigint;
  readonly count: number;
  readonly groupOffset: number;
}

/** A record with its place in the segment. */
export interface Frame extends JournalRecord {
  readonly offset: number;
  /** One behind its last byte. */
  readonly end: number;
  readonly groupOffset: number;
}

export function encodeSegmentHeader(header: SegmentHeader, checksum: Checksum): Uint8Array {
  const bytes = new Uint8Array(SEGMENT_HEADER_BYTES);
  const view = new DataView(bytes.buffer);
  bytes.set(MAGIC);
  view.setUint8(12, FORMAT_VERSION);
  const before = header.lastSequenceBefore === undefined ? 0 : HAS_RECORDS_BEFORE;
  view.setUint8(13, (header.previous === undefined ? 0 : HAS_PREVIOUS) | before | (header.isPrepared ? IS_PREPARED : 0));
  bytes.set(header.id, 16);
  view.setBigUint64(24, BigInt(header.ordinal));
  view.setBigUint64(32, header.firstSequence);
  view.setBigUint64(40, BigInt(header.previous?.ordinal ?? 0));
  view.setUint32(48, header.previous?.end ?? 0);
  view.setBigUint64(56, header.lastSequenceBefore ?? 0n);
  view.setUint32(CHECKSUM_AT, checksum(bytes.subarray(CHECKSUM_AT + 4)));
  return bytes;
}

/** Undefined when the bytes are no header of a version we know. */
export function decodeSegmentHeader(bytes: Uint8Array, checksum: Checksum): SegmentHeader | undefined {
  if (bytes.length < SEGMENT_HEADER_BYTES) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, SEGMENT_HEADER_BYTES);
  if (MAGIC.some((byte, at) => bytes[at] !== byte) || view.getUint8(12) !== FORMAT_VERSION) return undefined;
  if (view.getUint32(CHECKSUM_AT) !== checksum(bytes.subarray(CHECKSUM_AT + 4, SEGMENT_HEADER_BYTES))) return undefined;
  const flags = view.getUint8(13);
  return {
    id: bytes.slice(16, 16 + SEGMENT_ID_BYTES),
    ordinal: Number(view.getBigUint64(24)),
    firstSequence: view.getBigUint64(32),
    previous: (flags & HAS_PREVIOUS) === 0 ? undefined : { ordinal: Number(view.getBigUint64(40)), end: view.getUint32(48) },
    lastSequenceBefore: (flags & HAS_RECORDS_BEFORE) === 0 ? undefined : view.getBigUint64(56),
    isPrepared: (flags & IS_PREPARED) !== 0,
  };
}

/** Everything of the frame but its payload; `payload` is checksummed where it lies. `view` covers `bytes`. */
export function writeFrameHeader(
  bytes: Uint8Array,
  view: DataView,
  at: number,
  id: Uint8Array,
  header: FrameHeader,
  payload: Uint8Array,
  checksum: Checksum,
): void {
  view.setUint8(at + 4, FORMAT_VERSION);
  view.setUint8(at + 5, KINDS.indexOf(header.kind) + 1);
  view.setUint16(at + 6, 0);
  view.setUint32(at + 8, header.length);
  bytes.set(id, at + FRAME_ID_AT);
  view.setBigUint64(at + 20, header.sequence);
  view.setUint32(at + 28, header.count);
  view.setUint32(at + 32, header.groupOffset);
  view.setUint32(at, checksum(payload, checksum(bytes.subarray(at + 4, at + FRAME_HEADER_BYTES))));
}

/** What the bytes at `at` say as a frame's header, unchecked; undefined when they cannot be one of this segment. */
export function peekFrame(bytes: Uint8Array, view: DataView, at: number, id: Uint8Array): FrameHeader | undefined {
  if (at + FRAME_HEADER_BYTES > bytes.length) return undefined;
  const kind = KINDS[view.getUint8(at + 5) - 1];
  if (view.getUint8(at + 4) !== FORMAT_VERSION || kind === undefined || view.getUint16(at + 6) !== 0) return undefined;
  for (let i = 0; i < SEGMENT_ID_BYTES; i += 1) if (bytes[at + FRAME_ID_AT + i] !== id[i]) return undefined;
  return {
    kind,
    length: view.getUint32(at + 8),
    sequence: view.getBigUint64(at + 20),
    count: view.getUint32(at + 28),
    groupOffset: view.getUint32(at + 32),
  };
}

/** Whether the whole frame, which lies at `at`, is as it was written. */
export function isFrameSound(bytes: Uint8Array, view: DataView, at: number, length: number, checksum: Checksum): boolean {
  return view.getUint32(at) === checksum(bytes.subarray(at + 4, at + FRAME_HEADER_BYTES + length));
}

/** What lies at `offset` when nothing was acknowledged behind it. */
export function encodeEndMark(id: Uint8Array, offset: number, checksum: Checksum): Uint8Array {
  const bytes = new Uint8Array(END_MARK_BYTES);
  const view = new DataView(bytes.buffer);
  view.setUint8(4, FORMAT_VERSION);
  view.setUint8(5, END_MARK_KIND);
  view.setUint32(8, offset);
  bytes.set(id, FRAME_ID_AT);
  view.setUint32(0, checksum(bytes.subarray(4)));
  return bytes;
}

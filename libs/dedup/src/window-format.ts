import { ByteReader, ByteWriter, corrupt, openRecord, sealRecord } from "@concord/codec";
import { assert, type Checksum } from "@concord/runtime";
import { ID_WORDS, packIds, PACKED_ID_BYTES, unpackIds } from "./id-words.ts";
import { IDS_PER_BLOCK } from "./limits.ts";

/**
 * The window on disk, version 1; each value carries its checksum, golden bytes are tested.
 * Store "window": 01 -> manifest; 02 output offset (8 bytes) -> journal record: ids of the active segment from that offset on.
 * Store of a segment: 01 -> header; 10 block number (4 bytes) -> up to 256 ids in order.
 */
export const WINDOW_FORMAT_VERSION = 1;
export const ID_KEY_BYTES = 16;

export const MANIFEST_KEY = Uint8Array.of(0x01);
export const QUARANTINED_MANIFEST_KEY = Uint8Array.of(0x7f);
/** Before the key of a journal record that is quarantined. */
export const QUARANTINED_JOURNAL = 0x7e;
export const JOURNAL_RANGE = { from: Uint8Array.of(0x02), to: Uint8Array.of(0x03) };
export const SEGMENT_HEADER_KEY = Uint8Array.of(0x01);
export const BLOCK_RANGE = { from: Uint8Array.of(0x10), to: Uint8Array.of(0x11) };

export interface SegmentDescription {
  readonly store: string;
  /** Output offsets it covers: `to` is exclusive. */
  readonly from: bigint;
  readonly to: bigint;
  readonly ids: number;
  readonly oldestMs: number;
  readonly newestMs: number;
}

export interface Manifest {
  readonly idKey: Uint8Array;
  /** Output offset behind the newest segment: where the journal begins. */
  readonly segmentsTo: bigint;
  /** Number in the next store's name. */
  readonly nextStore: bigint;
  /** Oldest first. */
  readonly segments: readonly SegmentDescription[];
  readonly quarantined: readonly string[];
}

export interface JournalEntry {
  readonly from: bigint;
  readonly next: bigint;
  readonly oldestMs: number;
  readonly newestMs: number;
  readonly ids: Uint32Array;
}

export function segmentStoreName(number: bigint): string {
  return `run-${String(number).padStart(12, "0")}`;
}

export function encodeManifest(manifest: Manifest, checksum: Checksum): Uint8Array {
  const { segments, segmentsTo } = manifest;
  assert(manifest.idKey.length === ID_KEY_BYTES, "a manifest that is written is one that is read");
  assert(
    segments.every(({ from, to }, at) => from < to && to <= (segments[at + 1]?.from ?? segmentsTo)),
    "I9: segments follow each other, up to where the journal begins",
  );
  const writer = new ByteWriter(256).raw(manifest.idKey).u64(manifest.segmentsTo).u64(manifest.nextStore).varint(manifest.segments.length);
  for (const segment of manifest.segments) {
    writer.text(segment.store);
    writeRange(writer, segment);
  }
  writer.varint(manifest.quarantined.length);
  for (const name of manifest.quarantined) writer.text(name);
  return sealRecord(WINDOW_FORMAT_VERSION, writer, checksum);
}

export function decodeManifest(bytes: Uint8Array, checksum: Checksum): Manifest {
  const reader = new ByteReader(openRecord(bytes, WINDOW_FORMAT_VERSION, checksum).body);
  const idKey = Uint8Array.from(reader.raw(ID_KEY_BYTES));
  const segmentsTo = reader.u64();
  const nextStore = reader.u64();
  const segments = Array.from({ length: reader.varint() }, () => ({ store: reader.text(), ...readRange(reader) }));
  const quarantined = Array.from({ length: reader.varint() }, () => reader.text());
  reader.end();
  return { idKey, segmentsTo, nextStore, segments, quarantined };
}

export function encodeSegmentHeader(segment: Omit<SegmentDescription, "store">, checksum: Checksum): Uint8Array {
  assert(segment.from < segment.to, "a segment covers a part of the output");
  const writer = new ByteWriter(40);
  writeRange(writer, segment);
  return sealRecord(WINDOW_FORMAT_VERSION, writer, checksum);
}

export function decodeSegmentHeader(bytes: Uint8Array, checksum: Checksum): Omit<SegmentDescription, "store"> {
  const reader = new ByteReader(openRecord(bytes, WINDOW_FORMAT_VERSION, checksum).body);
  const header = readRange(reader);
  reader.end();
  return header;
}

export function journalKey(from: bigint): Uint8Array {
  return new ByteWriter(9).u8(0x02).u64(from).finish();
}

export function encodeJournalEntry(entry: JournalEntry, checksum: Checksum): Uint8Array {
  assert(entry.next > entry.from, "a journal record goes on from a later offset");
  assert(BigInt(entry.ids.length / ID_WORDS) <= entry.next - entry.from, "I3: a journal record has at most one id for each output offset");
  assert(entry.oldestMs <= entry.newestMs, "I9: the oldest id of a journal record is no younger than its newest");
  const writer = new ByteWriter(32 + entry.ids.length * 4)
    .u64(entry.next)
    .u64(BigInt(entry.oldestMs))
    .u64(BigInt(entry.newestMs))
    .raw(unpackIds(entry.ids));
  return sealRecord(WINDOW_FORMAT_VERSION, writer, checksum);
}

/** Entries of one segment that follow one another, as one. */
export function joinEntries(entries: readonly JournalEntry[]): JournalEntry {
  const [first, last] = [entries[0]!, entries.at(-1)!];
  if (first === last) return first;
  const ids = new Uint32Array(entries.reduce((sum, entry) => sum + entry.ids.length, 0));
  let [next, filled, oldestMs, newestMs] = [first.from, 0, Infinity, 0];
  for (const entry of entries) {
    assert(entry.from === next, "I3: a journal record has no gap");
    ids.set(entry.ids, filled);
    filled += entry.ids.length;
    next = entry.next;
    if (entry.ids.length === 0) continue;
    oldestMs = Math.min(oldestMs, entry.oldestMs);
    newestMs = Math.max(newestMs, entry.newestMs);
  }
  return { from: first.from, next, ids, oldestMs: filled === 0 ? 0 : oldestMs, newestMs };
}

export function decodeJournalEntry(key: Uint8Array, value: Uint8Array, checksum: Checksum): JournalEntry {
  const keyReader = new ByteReader(key);
  keyReader.u8();
  const from = keyReader.u64();
  keyReader.end();
  const reader = new ByteReader(openRecord(value, WINDOW_FORMAT_VERSION, checksum).body);
  const next = reader.u64();
  const oldestMs = Number(reader.u64());
  const newestMs = Number(reader.u64());
  if (reader.remaining % PACKED_ID_BYTES !== 0 || next <= from) throw corrupt("a journal record of the window");
  return { from, next, oldestMs, newestMs, ids: packIds(reader.raw(reader.remaining)) };
}

export function blockKey(block: number): Uint8Array {
  return new ByteWriter(5).u8(0x10).u32(block).finish();
}

export function encodeBlock(ids: Uint32Array, checksum: Checksum): Uint8Array {
  assert(ids.length > 0, "a block has an id: without one it would not be read");
  assert(ids.length <= IDS_PER_BLOCK * ID_WORDS, "a look-up reads one block of bounded size");
  return sealRecord(WINDOW_FORMAT_VERSION, unpackIds(ids), checksum);
}

export function decodeBlock(value: Uint8Array, checksum: Checksum): Uint32Array {
  const { body } = openRecord(value, WINDOW_FORMAT_VERSION, checksum);
  if (body.length === 0 || body.length % PACKED_ID_BYTES !== 0) throw corrupt("a block of a segment");
  return packIds(body);
}

export function writeRange(writer: ByteWriter, segment: Omit<SegmentDescription, "store">): void {
  writer.u64(segment.from).u64(segment.to).u32(segment.ids).u64(BigInt(segment.oldestMs)).u64(BigInt(segment.newestMs));
}

export function readRange(reader: ByteReader): Omit<SegmentDescription, "store"> {
  return { from: reader.u64(), to: reader.u64(), ids: reader.u32(), oldestMs: Number(reader.u64()), newestMs: Number(reader.u64()) };
}

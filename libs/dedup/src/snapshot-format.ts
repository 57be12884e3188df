import { ByteReader, ByteWriter, corrupt, openRecord, sealRecord } from "@concord/codec";
import { assert, toHex, type Checksum } from "@concord/runtime";
import type { IdHash } from "./api.ts";
import { PACKED_ID_BYTES } from "./id-words.ts";
import { IDS_PER_SEGMENT_MAX, SEGMENTS_MAX, SNAPSHOT_BLOB_IDS } from "./limits.ts";
import { ID_KEY_BYTES, readRange, writeRange, type SegmentDescription } from "./window-format.ts";

/**
 * A snapshot of a window, version 1 (golden bytes are tested). Blob "ids-H": up to SNAPSHOT_BLOB_IDS packed ids in order; H is the hash of
 * its bytes under the window's key, so that equal blobs are kept once and a changed one is noticed. Manifest "window-N-K": N = `outNext` as
 * 20 digits, K = the window's lineage; it names the blobs of each segment and is written last.
 */
const SNAPSHOT_FORMAT_VERSION = 1;
const HASH_BYTES = 16;
const MANIFEST_NAME = /^window-(\d{20})-([0-9a-f]{32})$/;
export const BLOB_PREFIX = "ids-";

/** A message of the output that tells this log from another one: the last one that the snapshot covers. */
export interface OutputWitness {
  readonly offset: bigint;
  readonly hash: Uint8Array;
}

export interface SnapshotSegment extends Omit<SegmentDescription, "store"> {
  /** Names, in the order of the ids. */
  readonly blobs: readonly string[];
}

export interface Snapshot {
  readonly partition: number;
  readonly idKey: Uint8Array;
  /** The next output offset to apply: where the ids of the segments end. */
  readonly outNext: bigint;
  readonly witness: OutputWitness;
  /** Oldest first. */
  readonly segments: readonly SnapshotSegment[];
}

export interface SnapshotName {
  readonly name: string;
  readonly outNext: bigint;
  readonly lineage: string;
}

/** Equal for windows with the same key: one made from the other. Tells nothing of the key. */
export function lineageOf(idKey: Uint8Array, hash: IdHash): string {
  return toHex(hash(idKey, new TextEncoder().encode("concord window snapshot")));
}

export function snapshotName(outNext: bigint, lineage: string): string {
  const name = `window-${String(outNext).padStart(20, "0")}-${lineage}`;
  assert(MANIFEST_NAME.test(name), "DD11: a snapshot has a name by which a restore finds it");
  return name;
}

/** Those of a listing that name snapshots, the newest first. */
export function snapshotNames(names: readonly string[]): readonly SnapshotName[] {
  const found = names.flatMap((name) => {
    const match = MANIFEST_NAME.exec(name);
    return match === null ? [] : [{ name, outNext: BigInt(match[1]!), lineage: match[2]! }];
  });
  return found.toSorted((a, b) => (a.outNext === b.outNext ? 0 : a.outNext < b.outNext ? 1 : -1));
}

export function blobName(idKey: Uint8Array, bytes: Uint8Array, hash: IdHash): string {
  const digest = hash(idKey, bytes);
  assert(digest.length === HASH_BYTES, "DDD11: a blob is named by a hash of 128 bits");
  return BLOB_PREFIX + toHex(digest);
}

export function blobsOf(ids: number): number {
  return Math.ceil(ids / SNAPSHOT_BLOB_IDS);
}

export function encodeSnapshot(snapshot: Snapshot, checksum: Checksum): Uint8Array {
  const { partition, idKey, outNext, witness, segments } = snapshot;
  assert(idKey.length === ID_KEY_BYTES && witness.hash.length === HASH_BYTES, "a snapshot that is written is one that is read");
  assert(
    segments.every(({ ids, blobs }) => blobs.length === blobsOf(ids)),
    "I11: a snapshot names every blob of its segments",
  );
  const writer = new ByteWriter(256).u32(partition).raw(idKey).u64(outNext).u64(witness.offset).raw(witness.hash).varint(segments.length);
  for (const segment of segments) {
    writeRange(writer, segment);
    for (const blob of segment.blobs) writer.hex(blob.slice(BLOB_PREFIX.length));
  }
  return sealRecord(SNAPSHOT_FORMAT_VERSION, writer, checksum);
}

/** CORRUPT_DATA when it is not a snapshot, or says what none of ours does. */
export function decodeSnapshot(bytes: Uint8Array, checksum: Checksum): Snapshot {
  const reader = new ByteReader(openRecord(bytes, SNAPSHOT_FORMAT_VERSION, checksum).body);
  const partition = reader.u32();
  const idKey = Uint8Array.from(reader.raw(ID_KEY_BYTES));
  const outNext = reader.u64();
  const witness = { offset: reader.u64(), hash: Uint8Array.from(reader.raw(HASH_BYTES)) };
  const count = reader.varint();
  if (count === 0 || count > SEGMENTS_MAX) throw corrupt(`a snapshot of ${count} segments`);
  const segments: SnapshotSegment[] = [];
  let to = 0n;
  for (let at = 0; at < count; at += 1) {
    const range = readRange(reader);
    const follows = range.from >= to && range.to > range.from && range.to <= outNext;
    if (!follows || range.ids === 0 || range.ids > IDS_PER_SEGMENT_MAX) throw corrupt("a snapshot's segments do not follow each other");
    const blobs = Array.from({ length: blobsOf(range.ids) }, () => BLOB_PREFIX + toHex(reader.raw(HASH_BYTES)));
    segments.push({ ...range, blobs });
    ({ to } = range);
  }
  reader.end();
  return { partition, idKey, outNext, witness, segments };
}

/** Bytes of the ids that a snapshot keeps. */
export function snapshotBytes({ segments }: Pick<Snapshot, "segments">): number {
  return segments.reduce((sum, { ids }) => sum + ids * PACKED_ID_BYTES, 0);
}

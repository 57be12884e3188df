import { ByteReader, ByteWriter, corrupt, openRecord, PlacedPut, sealRecord, writeOrderedBytes } from "@concord/codec";
import type { KeyValueOperation, LogEntry } from "@concord/ports";
import { imageRowKey, isTombstone, rowPlaces } from "@concord/rows";
import { assert, SEQ_NONE, seqOf, type Checksum, type Seq } from "@concord/runtime";

/** Namespaces of the node's store. */
export const ROWS_NAMESPACE = 0x72; // 'r'
/** Copies of stored rows that failed their check, by stored key. Node-local. */
export const QUARANTINE_NAMESPACE = 0x78; // 'x'
/** Notes of the tombstones of groups' rows that are kept: 't', group, seq (8 bytes), row key -> nothing. Node-local. */
export const TOMBSTONES_NAMESPACE = 0x74; // 't'

/** Merged by timestamp: rows of plain tables, and of groups before rows followed from the log. The body is the image. */
const MERGED_VERSION = 1;
/** Follows from a group's log: the body is the group's name, the entry's seq (8 bytes) and the image. */
const FOLLOWING_VERSION = 2;
export const ROW_FORMAT_VERSION = FOLLOWING_VERSION;
const encoder = new TextEncoder();
const NOTHING = new Uint8Array();
/** Version and checksum. */
export const SEAL_BYTES = 5;

/** Where in a group's log a row comes from. */
export interface LogPlace {
  readonly group: string;
  readonly seq: Seq;
}

export interface StoredRow {
  /** The encoded image (a view). */
  readonly image: Uint8Array;
  /** Undefined: the row is merged by timestamp. */
  readonly place: LogPlace | undefined;
}

export function storedRowKey(rowKey: Uint8Array): Uint8Array {
  return prefixed(ROWS_NAMESPACE, rowKey);
}

export function sealMerged(image: Uint8Array, checksum: Checksum): Uint8Array {
  return sealRecord(MERGED_VERSION, image, checksum);
}

/**
 * The writes by which an entry's rows replace what is stored (TXD14): in log order each is the whole row; then the notes of tombstones (I9).
 * Keys and values of rows are parts of one buffer: allocating each costs more than everything else that is done to a row.
 */
export function rowsOfEntry(group: string, { seq, rows }: Pick<LogEntry, "seq" | "rows">, checksum: Checksum): KeyValueOperation[] {
  assert(seq > SEQ_NONE, "I6: a row follows from an entry of its group's log");
  const places = rowPlaces(rows);
  const origin = new ByteWriter().text(group).u64(seq).finish();
  let length = 0;
  for (const { from, to, keyFrom, keyTo } of places) length += 1 + keyTo - keyFrom + SEAL_BYTES + origin.length + to - from;
  const buffer = new Uint8Array(length);
  const view = new DataView(buffer.buffer);
  let at = 0;
  const operations = places.map(({ from, to, keyFrom, keyTo }): KeyValueOperation => {
    const keyAt = at;
    buffer[keyAt] = ROWS_NAMESPACE;
    for (let i = keyFrom; i < keyTo; i += 1) buffer[keyAt + 1 + i - keyFrom] = rows[i]!;
    const valueAt = keyAt + 1 + keyTo - keyFrom;
    const bodyAt = valueAt + SEAL_BYTES;
    buffer[valueAt] = FOLLOWING_VERSION;
    buffer.set(origin, bodyAt);
    buffer.set(rows.subarray(from, to), bodyAt + origin.length);
    at = bodyAt + origin.length + to - from;
    view.setUint32(valueAt + 1, checksum(buffer.subarray(bodyAt, at)) >>> 0);
    return new PlacedPut(buffer, { from: keyAt, valueFrom: valueAt, to: at });
  });
  assert(at === length && operations.length === places.length, "I6: every row of an entry is put as a whole");
  for (const { keyFrom, keyTo, to } of places) {
    if (isTombstone(rows, keyTo, to)) operations.push(tombstoneNote({ group, seq }, rows.subarray(keyFrom, keyTo)));
  }
  return operations;
}

/** Key of the note that a row's tombstone is kept. */
export function tombstoneKey({ group, seq }: LogPlace, rowKey: Uint8Array): Uint8Array {
  const writer = new ByteWriter(64).u8(TOMBSTONES_NAMESPACE);
  writeOrderedBytes(writer, encoder.encode(group));
  return writer.u64(seq).raw(rowKey).finish();
}

/** The note that belongs to a stored row of a group that is a tombstone; undefined for every other row. */
export function tombstoneOf({ image, place }: StoredRow): KeyValueOperation | undefined {
  if (place === undefined) return undefined;
  const rowKey = imageRowKey(image);
  const keyTo = rowKey.byteOffset - image.byteOffset + rowKey.length;
  return isTombstone(image, keyTo, image.length) ? tombstoneNote(place, rowKey) : undefined;
}

function tombstoneNote(place: LogPlace, rowKey: Uint8Array): KeyValueOperation {
  assert(place.seq > SEQ_NONE, "I9: the note of a tombstone names the entry of its deletion");
  return { kind: "put", key: tombstoneKey(place, rowKey), value: NOTHING };
}

/** Throws CORRUPT_DATA of rows that `rowsOfEntry` cannot take apart. */
export function checkEntryRows(rows: Uint8Array): void {
  rowPlaces(rows);
}

/** Throws CORRUPT_DATA when the stored value fails its check. */
export function openRow(stored: Uint8Array, checksum: Checksum): StoredRow {
  const { version, body } = openRecord(stored, ROW_FORMAT_VERSION, checksum);
  return rowIn(version, body);
}

/** The encoded image of a stored row, which the replica that answered has checked (a view). */
export function imageOfStored(stored: Uint8Array): Uint8Array {
  if (stored.length <= SEAL_BYTES) throw corrupt("a stored row is cut");
  return rowIn(stored[0]!, stored.subarray(SEAL_BYTES)).image;
}

export function keyOfStored(stored: Uint8Array): Uint8Array {
  return imageRowKey(imageOfStored(stored));
}

/** Of two copies of a row the one that is to be kept when both come from logs, or one does; undefined when both are merged by timestamp. */
export function laterInLog<Row extends StoredRow>(left: Row, right: Row): Row | undefined {
  if (left.place === undefined) return right.place === undefined ? undefined : right;
  if (right.place === undefined) return left;
  if (left.place.group !== right.place.group) throw corrupt(`a row follows from the logs of ${left.place.group} and ${right.place.group}`);
  return left.place.seq >= right.place.seq ? left : right;
}

/**
 * Keeps a copy of a corrupt row where operators find it. The row itself stays, so that this replica goes on refusing to answer for
 * it: answering "never written" could let a quorum forget an acknowledged write (I5).
 */
export function quarantine(storedKey: Uint8Array, stored: Uint8Array): KeyValueOperation {
  return { kind: "put", key: prefixed(QUARANTINE_NAMESPACE, storedKey), value: stored };
}

function rowIn(version: number, body: Uint8Array): StoredRow {
  if (version === MERGED_VERSION) return { image: body, place: undefined };
  const reader = new ByteReader(body);
  const place = { group: reader.text(), seq: seqOf(reader.u64()) };
  return { image: reader.raw(reader.remaining), place };
}

function prefixed(namespace: number, key: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(key.length + 1);
  bytes[0] = namespace;
  bytes.set(key, 1);
  return bytes;
}

import { ByteReader, ByteWriter, corrupt, readOrderedText, writeOrderedText } from "@concord/codec";
import type { CellImage, ColumnWrite, Mutation, RowImage, RowKey, RowRange } from "@concord/ports";
import { readCellValue, readKeyValue, writeCellValue, writeKeyValue, type CellValue } from "@concord/values";
import { isTimestampUs, type TimestampUs } from "@concord/runtime";

/**
 * The storage format, version 1: how keys, mutations and images are written on disk, in the group log, in the batchlog and between
 * replicas. Stored keys sort bytewise by table, partition, clustering key (I2 of the rows README). Golden bytes are tested.
 */
const NO_TIMESTAMP = -1n;
/** What follows the key of one: when it was deleted, no marker, no cells. */
const TOMBSTONE_BYTES = 17;
const END_OF_PARTITION = 0x00;
const AFTER_PREFIX = 0xff;
const ROWS_FORMAT_VERSION = 1;
const MUTATION_KINDS = ["insert", "update", "delete"] as const;

export function encodeRowKey(key: RowKey): Uint8Array {
  return rowKeyWriter(key).finish();
}

function rowKeyWriter(key: RowKey): ByteWriter {
  const writer = new ByteWriter(64);
  writePartition(writer, key.table, key.partition);
  for (const value of key.clustering) writeKeyValue(writer, value);
  return writer;
}

export function decodeRowKey(bytes: Uint8Array): RowKey {
  const reader = new ByteReader(bytes);
  const table = readOrderedText(reader);
  const partition: CellValue[] = [];
  while (reader.peek() !== END_OF_PARTITION) partition.push(readKeyValue(reader));
  reader.u8();
  const clustering: CellValue[] = [];
  while (reader.remaining > 0) clustering.push(readKeyValue(reader));
  return { table, partition, clustering };
}

/** Stored keys of a partition start with these bytes. */
export function encodePartition(table: string, partition: readonly CellValue[]): Uint8Array {
  const writer = new ByteWriter(64);
  writePartition(writer, table, partition);
  return writer.finish();
}

/** Bounds of stored keys: from inclusive, to exclusive. Pages narrow them by `after`. */
export function encodeRange(range: RowRange): { from: Uint8Array; to: Uint8Array } {
  const bound = (prefix: readonly CellValue[], afterPrefix: boolean): Uint8Array => {
    const writer = new ByteWriter(64);
    writePartition(writer, range.table, range.partition);
    for (const value of prefix) writeKeyValue(writer, value);
    if (afterPrefix) writer.u8(AFTER_PREFIX);
    return writer.finish();
  };
  let from = bound(range.lower?.prefix ?? [], range.lower !== undefined && !range.lower.inclusive);
  let to = bound(range.upper?.prefix ?? [], range.upper === undefined || range.upper.inclusive);
  if (range.after !== undefined) {
    if (range.reverse) to = bound(range.after, false);
    else from = bound(range.after, true);
  }
  return { from, to };
}

export function encodeMutation(mutation: Mutation): Uint8Array {
  const writer = new ByteWriter();
  writer.u8(MUTATION_KINDS.indexOf(mutation.kind)).i64(mutation.timestampUs).bytes(encodeRowKey(mutation.key));
  const columns = mutation.kind === "delete" ? [] : mutation.columns;
  writer.varint(columns.length);
  for (const { column, value } of columns) {
    writer.text(column);
    writeCellValue(writer, value);
  }
  return writer.finish();
}

export function decodeMutation(bytes: Uint8Array): Mutation {
  const reader = new ByteReader(bytes);
  const kind = MUTATION_KINDS[reader.u8()];
  if (kind === undefined) throw corrupt("an unknown kind of mutation");
  const timestampUs = reader.timestampUs();
  const key = decodeRowKey(reader.bytes());
  const count = reader.varint();
  const columns: ColumnWrite[] = [];
  for (let i = 0; i < count; i += 1) columns.push({ column: reader.text(), value: readCellValue(reader) });
  reader.end();
  return kind === "delete" ? { kind, key, timestampUs } : { kind, key, columns, timestampUs };
}

/** The encoded row key inside an encoded mutation (a view, not a copy). */
export function mutationRowKey(bytes: Uint8Array): Uint8Array {
  const reader = new ByteReader(bytes);
  reader.raw(1 + 8);
  return reader.bytes();
}

/** The encoded row key inside an encoded image (a view, not a copy). */
export function imageRowKey(bytes: Uint8Array): Uint8Array {
  return new ByteReader(bytes).bytes();
}

/** Is the encoded image that ends at `to`, with its row key ending at `keyTo`, a deletion and nothing else? False of what does not decode. */
export function isTombstone(bytes: Uint8Array, keyTo: number, to: number): boolean {
  if (to - keyTo !== TOMBSTONE_BYTES || to > bytes.length || bytes[keyTo]! >= 0x80 || bytes[to - 1] !== 0) return false;
  for (let at = keyTo + 8; at < to - 1; at += 1) if (bytes[at] !== 0xff) return false;
  return true;
}

/** Whole rows one after another, each with its length: a part of what `joinRows` makes. */
export function encodeRowsPart(images: readonly RowImage[]): Uint8Array {
  const writer = new ByteWriter();
  for (const image of images) writer.nested(imageWriter(image, new ByteWriter().nested(rowKeyWriter(image.key))));
  return writer.finish();
}

/** The rows as an entry of a group's log carries them: format version, then the parts. */
export function joinRows(parts: readonly Uint8Array[]): Uint8Array {
  const writer = new ByteWriter(parts.reduce((sum, part) => sum + part.length, 1)).u8(ROWS_FORMAT_VERSION);
  for (const part of parts) writer.raw(part);
  return writer.finish();
}

/** The images (views) inside what `joinRows` made; none in no bytes. CORRUPT_DATA for anything else. */
export function readRows(rows: Uint8Array): Uint8Array[] {
  return rowPlaces(rows).map(({ from, to }) => rows.subarray(from, to));
}

/** Where an image, and the encoded row key in it, lie inside what `encodeRows` made: from inclusive, to exclusive. */
export interface RowPlace {
  readonly from: number;
  readonly to: number;
  readonly keyFrom: number;
  readonly keyTo: number;
}

/** The places of all images; none in no bytes. CORRUPT_DATA for anything that `encodeRows` does not make of images. */
export function rowPlaces(rows: Uint8Array): RowPlace[] {
  if (rows.length === 0) return [];
  const reader = new ByteReader(rows);
  const version = reader.u8();
  if (version !== ROWS_FORMAT_VERSION) throw corrupt(`rows of format version ${version}`);
  const places: RowPlace[] = [];
  while (reader.remaining > 0) {
    const length = reader.varint();
    const from = reader.position;
    const to = from + length;
    const keyLength = reader.varint();
    const keyFrom = reader.position;
    const keyTo = keyFrom + keyLength;
    if (keyTo > to) throw corrupt("a row's key does not end in its image");
    reader.skip(to - keyFrom);
    places.push({ from, to, keyFrom, keyTo });
  }
  return places;
}

/** `rowKey`: the encoded key, when it is at hand. */
export function encodeImage(image: RowImage, rowKey: Uint8Array = encodeRowKey(image.key)): Uint8Array {
  return imageWriter(image, new ByteWriter().bytes(rowKey)).finish();
}

/** `writer` has the key. */
function imageWriter(image: RowImage, writer: ByteWriter): ByteWriter {
  writer
    .i64(image.deletedAtUs ?? NO_TIMESTAMP)
    .i64(image.markerUs ?? NO_TIMESTAMP)
    .varint(image.cells.size);
  for (const column of sortedColumns(image.cells)) {
    const { timestampUs, value } = image.cells.get(column)!;
    writer.text(column).i64(timestampUs);
    writeCellValue(writer, value);
  }
  return writer;
}

/** Cells are few, and those that were decoded are in order: put in place one by one. */
function sortedColumns(cells: RowImage["cells"]): readonly string[] {
  const columns: string[] = [];
  cells.forEach((_, column) => {
    let at = columns.length;
    while (at > 0 && columns[at - 1]! > column) at -= 1;
    if (at === columns.length) columns.push(column);
    else columns.splice(at, 0, column);
  });
  return columns;
}

export function decodeImage(bytes: Uint8Array): RowImage {
  const reader = new ByteReader(bytes);
  const key = decodeRowKey(reader.bytes());
  const deletedAtUs = readTimestampOrNone(reader);
  const markerUs = readTimestampOrNone(reader);
  const count = reader.varint();
  const cells = new Map<string, CellImage>();
  for (let i = 0; i < count; i += 1) cells.set(reader.text(), { timestampUs: reader.timestampUs(), value: readCellValue(reader) });
  reader.end();
  return { key, deletedAtUs, markerUs, cells };
}

function readTimestampOrNone(reader: ByteReader): TimestampUs | undefined {
  const timestampUs = reader.i64();
  if (timestampUs === NO_TIMESTAMP) return undefined;
  if (!isTimestampUs(timestampUs)) throw corrupt(`a timestamp is ${timestampUs}, below 0`);
  return timestampUs;
}

function writePartition(writer: ByteWriter, table: string, partition: readonly CellValue[]): void {
  writeOrderedText(writer, table);
  for (const value of partition) writeKeyValue(writer, value);
  writer.u8(END_OF_PARTITION);
}

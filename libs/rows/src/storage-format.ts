import {
  ByteReader,
  ByteWriter,
  corrupt,
  readOrderedBytes,
  readOrderedF64,
  readOrderedI32,
  readOrderedI64,
  writeOrderedBytes,
  writeOrderedF64,
  writeOrderedI32,
  writeOrderedI64,
  writeOrderedText,
} from "@concord/codec";
import { fromHex, toHex, unreachable } from "@concord/runtime";
import type { CellImage, CellValue, ColumnWrite, Mutation, RowImage, RowKey, RowRange } from "@concord/ports";

/**
 * The storage format, version 1: how keys, mutations and images are written on disk, in the group log, in the batchlog and between
 * replicas. Stored keys sort bytewise by table, partition, clustering key (I2 of the rows README). Golden bytes are tested.
 */
const END_OF_PARTITION = 0x00;
const AFTER_PREFIX = 0xff;
const TAGS = { bigint: 1, int: 2, text: 3, blob: 4, boolean: 5, double: 6, timestamp: 7, uuid: 8 } as const;
const NULL_TAG = 9;
const KINDS = ["bigint", "int", "text", "blob", "boolean", "double", "timestamp", "uuid"] as const;
const MUTATION_KINDS = ["insert", "update", "delete"] as const;

const decoder = new TextDecoder("utf-8", { fatal: true });

export function encodeRowKey(key: RowKey): Uint8Array {
  const writer = new ByteWriter(64);
  writePartition(writer, key.table, key.partition);
  for (const value of key.clustering) writeOrderedValue(writer, value);
  return writer.finish();
}

export function decodeRowKey(bytes: Uint8Array): RowKey {
  const reader = new ByteReader(bytes);
  const table = decodeText(readOrderedBytes(reader));
  const partition: CellValue[] = [];
  while (reader.peek() !== END_OF_PARTITION) partition.push(readOrderedValue(reader));
  reader.u8();
  const clustering: CellValue[] = [];
  while (reader.remaining > 0) clustering.push(readOrderedValue(reader));
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
    for (const value of prefix) writeOrderedValue(writer, value);
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

/** A value's bytes as in a stored key: equal values, equal bytes; ordered within a kind. Used for tokens and lock names too. */
export function encodeOrderedValue(value: CellValue): Uint8Array {
  const writer = new ByteWriter(32);
  writeOrderedValue(writer, value);
  return writer.finish();
}

export function encodeMutation(mutation: Mutation): Uint8Array {
  const writer = new ByteWriter();
  writer.u8(MUTATION_KINDS.indexOf(mutation.kind)).i64(mutation.timestampUs).bytes(encodeRowKey(mutation.key));
  const columns = mutation.kind === "delete" ? [] : mutation.columns;
  writer.varint(columns.length);
  for (const { column, value } of columns) {
    writer.text(column);
    writeValue(writer, value);
  }
  return writer.finish();
}

export function decodeMutation(bytes: Uint8Array): Mutation {
  const reader = new ByteReader(bytes);
  const kind = MUTATION_KINDS[reader.u8()];
  if (kind === undefined) throw corrupt("an unknown kind of mutation");
  const timestampUs = reader.i64();
  const key = decodeRowKey(reader.bytes());
  const count = reader.varint();
  const columns: ColumnWrite[] = [];
  for (let i = 0; i < count; i += 1) columns.push({ column: reader.text(), value: readValue(reader) });
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

/** `rowKey`: the encoded key, when it is at hand. */
export function encodeImage(image: RowImage, rowKey: Uint8Array = encodeRowKey(image.key)): Uint8Array {
  const writer = new ByteWriter();
  writer
    .bytes(rowKey)
    .i64(image.deletedAtUs ?? -1n)
    .i64(image.markerUs ?? -1n)
    .varint(image.cells.size);
  for (const [column, cell] of [...image.cells].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))) {
    writer.text(column).i64(cell.timestampUs);
    writeValue(writer, cell.value);
  }
  return writer.finish();
}

export function decodeImage(bytes: Uint8Array): RowImage {
  const reader = new ByteReader(bytes);
  const key = decodeRowKey(reader.bytes());
  const deletedAtUs = timestampOrNone(reader.i64());
  const markerUs = timestampOrNone(reader.i64());
  const count = reader.varint();
  const cells = new Map<string, CellImage>();
  for (let i = 0; i < count; i += 1) cells.set(reader.text(), { timestampUs: reader.i64(), value: readValue(reader) });
  reader.end();
  return { key, deletedAtUs, markerUs, cells };
}

function timestampOrNone(timestampUs: bigint): bigint | undefined {
  return timestampUs < 0n ? undefined : timestampUs;
}

function writePartition(writer: ByteWriter, table: string, partition: readonly CellValue[]): void {
  writeOrderedText(writer, table);
  for (const value of partition) writeOrderedValue(writer, value);
  writer.u8(END_OF_PARTITION);
}

function writeOrderedValue(writer: ByteWriter, value: CellValue): void {
  writer.u8(TAGS[value.kind]);
  switch (value.kind) {
    case "bigint":
    case "timestamp":
      return writeOrderedI64(writer, value.value);
    case "int":
      return writeOrderedI32(writer, value.value);
    case "text":
      return writeOrderedText(writer, value.value);
    case "blob":
      return writeOrderedBytes(writer, value.value);
    case "boolean":
      writer.u8(value.value ? 1 : 0);
      return;
    case "double":
      return writeOrderedF64(writer, value.value);
    case "uuid":
      writer.raw(fromHex(value.value));
      return;
    default:
      return unreachable(value);
  }
}

function readOrderedValue(reader: ByteReader): CellValue {
  const kind = kindOf(reader.u8());
  switch (kind) {
    case "bigint":
    case "timestamp":
      return { kind, value: readOrderedI64(reader) };
    case "int":
      return { kind, value: readOrderedI32(reader) };
    case "text":
      return { kind, value: decodeText(readOrderedBytes(reader)) };
    case "blob":
      return { kind, value: readOrderedBytes(reader) };
    case "boolean":
      return { kind, value: reader.u8() === 1 };
    case "double":
      return { kind, value: readOrderedF64(reader) };
    case "uuid":
      return { kind, value: toHex(reader.raw(16)) };
    default:
      return unreachable(kind);
  }
}

function writeValue(writer: ByteWriter, value: CellValue | null): void {
  if (value === null) {
    writer.u8(NULL_TAG);
    return;
  }
  if (value.kind !== "text" && value.kind !== "blob") return writeOrderedValue(writer, value);
  writer.u8(TAGS[value.kind]);
  if (value.kind === "text") writer.text(value.value);
  else writer.bytes(value.value);
}

function readValue(reader: ByteReader): CellValue | null {
  const tag = reader.peek();
  if (tag === NULL_TAG) {
    reader.u8();
    return null;
  }
  if (tag === TAGS.text) {
    reader.u8();
    return { kind: "text", value: reader.text() };
  }
  if (tag === TAGS.blob) {
    reader.u8();
    return { kind: "blob", value: reader.bytes().slice() };
  }
  return readOrderedValue(reader);
}

function kindOf(tag: number): (typeof KINDS)[number] {
  const kind = KINDS[tag - 1];
  if (kind === undefined) throw corrupt(`value tag ${tag}`);
  return kind;
}

function decodeText(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch {
    throw corrupt("text is not UTF-8");
  }
}

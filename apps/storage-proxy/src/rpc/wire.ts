/** proto <-> domain. Messages are proto-loader's plain objects; what does not fit is MALFORMED_REQUEST. */
import type { CellValue, ColumnWrite, Mutation, Row, RowImage, RowKey, RowRange } from "@concord/ports";
import { ConcordError, fromHex, toHex, unreachable, type TimestampUs } from "@concord/runtime";
import type { RowWrite } from "@concord/schema";

export interface WireCellValue {
  readonly kind?: string;
  readonly bigintValue?: bigint;
  readonly intValue?: number;
  readonly textValue?: string;
  readonly blobValue?: Uint8Array;
  readonly booleanValue?: boolean;
  readonly doubleValue?: number;
  readonly timestampValue?: bigint;
  readonly uuidValue?: Uint8Array;
  readonly nullValue?: boolean;
}

export interface WireColumn {
  readonly name: string;
  readonly value: WireCellValue | null;
}

export interface WireRowKey {
  readonly table: string;
  readonly partition: readonly WireCellValue[];
  readonly clustering: readonly WireCellValue[];
}

export interface WireRowWrite {
  readonly kind: string;
  readonly key: WireRowKey | null;
  readonly columns: readonly WireColumn[];
}

export interface WireMutation {
  readonly write: WireRowWrite | null;
  readonly timestampUs: bigint;
}

export interface WireRangeBound {
  readonly prefix: readonly WireCellValue[];
  readonly inclusive: boolean;
}

export interface WireRowRange {
  readonly table: string;
  readonly partition: readonly WireCellValue[];
  readonly lower: WireRangeBound | null;
  readonly upper: WireRangeBound | null;
  readonly reverse: boolean;
}

const UUID_BYTES = 16;
const INT_MIN = -(2 ** 31);
const INT_MAX = 2 ** 31 - 1;
const WRITE_KINDS: Readonly<Record<string, RowWrite["kind"]>> = {
  WRITE_KIND_INSERT: "insert",
  WRITE_KIND_UPDATE: "update",
  WRITE_KIND_DELETE: "delete",
};

export function malformed(what: string): ConcordError {
  return new ConcordError("MALFORMED_REQUEST", what);
}

/** A required message field. */
export function required<Message>(message: Message | null | undefined, field: string): Message {
  if (message === null || message === undefined) throw malformed(`${field} is missing`);
  return message;
}

/** A value or null (a tombstone). */
export function cellFromWire(cell: WireCellValue | null): CellValue | null {
  switch (cell?.kind) {
    case "bigintValue":
      return { kind: "bigint", value: cell.bigintValue! };
    case "intValue":
      return { kind: "int", value: int32(cell.intValue!) };
    case "textValue":
      return { kind: "text", value: cell.textValue! };
    case "blobValue":
      return { kind: "blob", value: Uint8Array.from(cell.blobValue!) };
    case "booleanValue":
      return { kind: "boolean", value: cell.booleanValue! };
    case "doubleValue":
      return { kind: "double", value: cell.doubleValue! };
    case "timestampValue":
      return { kind: "timestamp", value: cell.timestampValue! };
    case "uuidValue":
      return { kind: "uuid", value: uuidFromWire(cell.uuidValue!) };
    case "nullValue":
      return null;
    default:
      throw malformed("a value has no kind");
  }
}

export function cellToWire(value: CellValue | null): WireCellValue {
  if (value === null) return { nullValue: true };
  switch (value.kind) {
    case "bigint":
      return { bigintValue: value.value };
    case "int":
      return { intValue: value.value };
    case "text":
      return { textValue: value.value };
    case "blob":
      return { blobValue: value.value };
    case "boolean":
      return { booleanValue: value.value };
    case "double":
      return { doubleValue: value.value };
    case "timestamp":
      return { timestampValue: value.value };
    case "uuid":
      return { uuidValue: fromHex(value.value) };
    default:
      return unreachable(value);
  }
}

export function keyFromWire(key: WireRowKey | null): RowKey {
  const { table, partition, clustering } = required(key, "key");
  if (table === "") throw malformed("key.table is missing");
  if (partition.length === 0) throw malformed("key.partition is missing");
  return { table, partition: keyValues(partition), clustering: keyValues(clustering) };
}

export function keyToWire(key: RowKey): WireRowKey {
  return { table: key.table, partition: key.partition.map(cellToWire), clustering: key.clustering.map(cellToWire) };
}

export function rangeFromWire(range: WireRowRange | null, limit: number): RowRange {
  const { table, partition, lower, upper, reverse } = required(range, "range");
  if (table === "") throw malformed("range.table is missing");
  if (partition.length === 0) throw malformed("range.partition is missing");
  return {
    table,
    partition: keyValues(partition),
    ...(lower === null ? {} : { lower: { prefix: keyValues(lower.prefix), inclusive: lower.inclusive } }),
    ...(upper === null ? {} : { upper: { prefix: keyValues(upper.prefix), inclusive: upper.inclusive } }),
    reverse,
    limit,
  };
}

export function writeFromWire(write: WireRowWrite | null): RowWrite {
  const { kind: wireKind, key: wireKey, columns } = required(write, "write");
  const kind = WRITE_KINDS[wireKind];
  if (kind === undefined) throw malformed("write.kind is missing");
  const key = keyFromWire(wireKey);
  return { kind, table: key.table, key, columns: columns.map(columnFromWire) };
}

/** A mutation of a coordinator: self-describing, not checked against the schema. */
export function mutationFromWire(message: WireMutation): Mutation {
  const write = writeFromWire(message.write);
  const { timestampUs } = message;
  if (timestampUs <= 0n) throw malformed("a mutation has no timestamp");
  if (write.kind === "delete" && write.columns.length > 0) throw malformed("a delete has columns");
  return mutationOf(write, timestampUs);
}

export function mutationOf(write: RowWrite, timestampUs: TimestampUs): Mutation {
  const { key, columns } = write;
  return write.kind === "delete" ? { kind: "delete", key, timestampUs } : { kind: write.kind, key, columns, timestampUs };
}

/** A live row; `columns` undefined = all. Key columns are in the key only. */
export function rowToWire(row: Row, columns?: ReadonlySet<string>): object {
  const shown = [...row.columns].filter(([name]) => columns === undefined || columns.has(name)).sort(byName);
  return {
    key: keyToWire(row.key),
    columns: shown.map(([name, value]) => ({ name, value: cellToWire(value) })),
    newestTimestampUs: row.newestUs,
  };
}

export function imageToWire(image: RowImage): object {
  const cells = [...image.cells]
    .sort(byName)
    .map(([name, cell]) => ({ name, timestampUs: cell.timestampUs, value: cellToWire(cell.value) }));
  return { key: keyToWire(image.key), deletedAtUs: image.deletedAtUs ?? 0n, markerUs: image.markerUs ?? 0n, cells };
}

function columnFromWire(column: WireColumn): ColumnWrite {
  if (column.name === "") throw malformed("a column has no name");
  return { column: column.name, value: cellFromWire(column.value) };
}

function keyValues(values: readonly WireCellValue[]): CellValue[] {
  return values.map((value) => {
    const cell = cellFromWire(value);
    if (cell === null) throw malformed("a key value is null");
    if (cell.kind === "double" && Number.isNaN(cell.value)) throw malformed("a key value is NaN");
    return cell;
  });
}

function int32(value: number): number {
  if (!Number.isInteger(value) || value < INT_MIN || value > INT_MAX) throw malformed("an int value is outside 32 bits");
  return value;
}

function uuidFromWire(bytes: Uint8Array): string {
  if (bytes.length !== UUID_BYTES) throw malformed(`a uuid has ${UUID_BYTES} bytes, not ${bytes.length}`);
  return toHex(bytes);
}

function byName([left]: readonly [string, unknown], [right]: readonly [string, unknown]): number {
  return left < right ? -1 : left > right ? 1 : 0;
}

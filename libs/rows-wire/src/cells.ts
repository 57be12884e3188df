/** proto <-> domain for cells, keys, rows and images. Messages are proto-loader's plain objects; what does not fit is MALFORMED_REQUEST. */
import { foldName } from "@concord/codec";
import type { CellImage, CellValue, ColumnWrite, Row, RowImage, RowKey, RowRange } from "@concord/ports";
import { ConcordError, fromHex, toHex, unreachable } from "@concord/runtime";

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

export interface WireRow {
  readonly key: WireRowKey | null;
  readonly columns: readonly WireColumn[];
  readonly newestTimestampUs: bigint;
}

export interface WireRowImage {
  readonly key: WireRowKey | null;
  readonly deletedAtUs: bigint;
  readonly markerUs: bigint;
  readonly cells: readonly { readonly name: string; readonly timestampUs: bigint; readonly value: WireCellValue | null }[];
}

const UUID_BYTES = 16;
const INT_MIN = -(2 ** 31);
const INT_MAX = 2 ** 31 - 1;

export function malformed(what: string): ConcordError {
  return new ConcordError("MALFORMED_REQUEST", what);
}

/** A required message field. */
export function required<Message>(message: Message | null | undefined, field: string): Message {
  if (message === null || message === undefined) throw malformed(`${field} is missing`);
  return message;
}

/** A value; null deletes a cell. */
export function cellFromWire(cell: WireCellValue | null): CellValue | null {
  switch (cell?.kind) {
    case "bigintValue":
      return { kind: "bigint", value: cell.bigintValue! };
    case "intValue":
      return { kind: "int", value: int32(cell.intValue!) };
    case "textValue":
      return { kind: "text", value: cell.textValue! };
    case "blobValue":
      // A copy: the decoder's bytes are a view of the whole frame.
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
  return { table: foldName(table), partition: keyValuesFromWire(partition), clustering: keyValuesFromWire(clustering) };
}

export function keyToWire(key: RowKey): WireRowKey {
  return { table: key.table, partition: key.partition.map(cellToWire), clustering: key.clustering.map(cellToWire) };
}

export function columnFromWire(column: WireColumn): ColumnWrite {
  if (column.name === "") throw malformed("a column has no name");
  return { column: foldName(column.name), value: cellFromWire(column.value) };
}

export function rangeFromWire(range: WireRowRange | null, limit: number): RowRange {
  const { table, partition, lower, upper, reverse } = required(range, "range");
  if (table === "") throw malformed("range.table is missing");
  if (partition.length === 0) throw malformed("range.partition is missing");
  return {
    table: foldName(table),
    partition: keyValuesFromWire(partition),
    ...(lower === null ? {} : { lower: { prefix: keyValuesFromWire(lower.prefix), inclusive: lower.inclusive } }),
    ...(upper === null ? {} : { upper: { prefix: keyValuesFromWire(upper.prefix), inclusive: upper.inclusive } }),
    reverse,
    limit,
  };
}

/** A range and where it goes on: a position is a bound of its own, so pages need no token of the server. */
export function rangeToWire(range: RowRange): WireRowRange {
  const bound = (given: RowRange["lower"]): WireRangeBound | null =>
    given === undefined ? null : { prefix: given.prefix.map(cellToWire), inclusive: given.inclusive };
  const after = range.after === undefined ? undefined : { prefix: range.after, inclusive: false };
  return {
    table: range.table,
    partition: range.partition.map(cellToWire),
    lower: bound(range.reverse ? range.lower : (after ?? range.lower)),
    upper: bound(range.reverse ? (after ?? range.upper) : range.upper),
    reverse: range.reverse,
  };
}

/** A live row; `columns` undefined = all. Key columns are in the key only. */
export function rowToWire(row: Row, columns?: ReadonlySet<string>): WireRow {
  const shown = columns === undefined ? [...row.columns] : [...row.columns].filter(([name]) => columns.has(name));
  shown.sort(byName);
  return {
    key: keyToWire(row.key),
    columns: shown.map(([name, value]) => ({ name, value: cellToWire(value) })),
    newestTimestampUs: row.newestUs,
  };
}

export function imageFromWire(image: WireRowImage): RowImage {
  const cells = new Map<string, CellImage>();
  for (const { name, timestampUs, value } of image.cells) cells.set(name, { timestampUs, value: cellFromWire(value) });
  const { deletedAtUs, markerUs } = image;
  return {
    key: keyFromWire(image.key),
    deletedAtUs: deletedAtUs === 0n ? undefined : deletedAtUs,
    markerUs: markerUs === 0n ? undefined : markerUs,
    cells,
  };
}

export function imageToWire(image: RowImage): WireRowImage {
  const cells = [...image.cells]
    .sort(byName)
    .map(([name, cell]) => ({ name, timestampUs: cell.timestampUs, value: cellToWire(cell.value) }));
  return { key: keyToWire(image.key), deletedAtUs: image.deletedAtUs ?? 0n, markerUs: image.markerUs ?? 0n, cells };
}

function keyValuesFromWire(values: readonly WireCellValue[]): CellValue[] {
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

/** proto <-> domain for columns, keys, rows and images. Messages are proto-loader's plain objects; what does not fit is MALFORMED_REQUEST. */
import { foldName } from "@concord/codec";
import type { CellImage, ColumnWrite, Row, RowImage, RowKey, RowRange } from "@concord/ports";
import { ConcordError } from "@concord/runtime";
import { keyProblem, cellFromWire, cellToWire, type CellMessage, type CellValue } from "@concord/values";

export interface WireColumn {
  readonly name: string;
  readonly value: CellMessage | null;
}

export interface WireRowKey {
  readonly table: string;
  readonly partition: readonly CellMessage[];
  readonly clustering: readonly CellMessage[];
}

export interface WireRangeBound {
  readonly prefix: readonly CellMessage[];
  readonly inclusive: boolean;
}

export interface WireRowRange {
  readonly table: string;
  readonly partition: readonly CellMessage[];
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
  readonly cells: readonly { readonly name: string; readonly timestampUs: bigint; readonly value: CellMessage | null }[];
}

export function malformed(what: string): ConcordError {
  return new ConcordError("MALFORMED_REQUEST", what);
}

/** A required message field. */
export function required<Message>(message: Message | null | undefined, field: string): Message {
  if (message === null || message === undefined) throw malformed(`${field} is missing`);
  return message;
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

function keyValuesFromWire(values: readonly CellMessage[]): CellValue[] {
  return values.map((value) => {
    const cell = cellFromWire(value);
    if (cell === null) throw malformed("a key value is null");
    const problem = keyProblem(cell);
    if (problem !== undefined) throw malformed(`a key value ${problem}`);
    return cell;
  });
}

function byName([left]: readonly [string, unknown], [right]: readonly [string, unknown]): number {
  return left < right ? -1 : left > right ? 1 : 0;
}

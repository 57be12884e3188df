/** proto <-> domain for columns, keys, rows and images. Messages are plain objects; what does not fit is MALFORMED_REQUEST. */
import type * as wire from "@concord/protos-common";
import type * as storage from "@concord/protos-storage";
import { foldName } from "@concord/codec";
import type { CellImage, ColumnWrite, Row, RowImage, RowKey, RowRange } from "@concord/ports";
import { ConcordError, isTimestampUs, type TimestampUs } from "@concord/runtime";
import { keyProblem, cellFromWire, cellToWire, type CellValue } from "@concord/values";

export function malformed(what: string): ConcordError {
  return new ConcordError("MALFORMED_REQUEST", what);
}

/** A required message field. */
export function required<Message>(message: Message | null | undefined, field: string): Message {
  if (message === null || message === undefined) throw malformed(`${field} is missing`);
  return message;
}

export function keyFromWire(key: wire.RowKey | null): RowKey {
  const { table, partition, clustering } = required(key, "key");
  if (table === "") throw malformed("key.table is missing");
  if (partition.length === 0) throw malformed("key.partition is missing");
  return { table: foldName(table), partition: keyValuesFromWire(partition), clustering: keyValuesFromWire(clustering) };
}

export function keyToWire(key: RowKey): wire.RowKeyInit {
  return { table: key.table, partition: key.partition.map(cellToWire), clustering: key.clustering.map(cellToWire) };
}

export function columnFromWire(column: wire.Column): ColumnWrite {
  if (column.name === "") throw malformed("a column has no name");
  return { column: foldName(column.name), value: cellFromWire(column.value) };
}

export function rangeFromWire(range: wire.RowRange | null, limit: number): RowRange {
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
export function rangeToWire(range: RowRange): wire.RowRangeInit {
  const bound = (given: RowRange["lower"]): wire.RangeBoundInit | null =>
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
export function rowToWire(row: Row, columns?: ReadonlySet<string>): wire.RowInit {
  const shown: wire.ColumnInit[] = [];
  let before = "";
  let isSorted = true;
  row.columns.forEach((value, name) => {
    if (columns !== undefined && !columns.has(name)) return;
    isSorted &&= before <= name;
    before = name;
    shown.push({ name, value: cellToWire(value) });
  });
  if (!isSorted) shown.sort(({ name: left }, { name: right }) => (left! < right! ? -1 : left! > right! ? 1 : 0));
  return { key: keyToWire(row.key), columns: shown, newestTimestampUs: row.newestUs };
}

export function imageFromWire(image: storage.RowImage): RowImage {
  const cells = new Map<string, CellImage>();
  for (const { name, timestampUs, value } of image.cells)
    cells.set(name, { timestampUs: timestampFromWire(timestampUs), value: cellFromWire(value) });
  const { deletedAtUs, markerUs } = image;
  return {
    key: keyFromWire(image.key),
    deletedAtUs: deletedAtUs === 0n ? undefined : timestampFromWire(deletedAtUs),
    markerUs: markerUs === 0n ? undefined : timestampFromWire(markerUs),
    cells,
  };
}

function timestampFromWire(timestampUs: bigint): TimestampUs {
  if (isTimestampUs(timestampUs)) return timestampUs;
  throw malformed(`a timestamp is ${timestampUs}, below 0`);
}

export function imageToWire(image: RowImage): storage.RowImageInit {
  const cells = [...image.cells]
    .sort(byName)
    .map(([name, cell]) => ({ name, timestampUs: cell.timestampUs, value: cellToWire(cell.value) }));
  return { key: keyToWire(image.key), deletedAtUs: image.deletedAtUs ?? 0n, markerUs: image.markerUs ?? 0n, cells };
}

function keyValuesFromWire(values: readonly wire.CellValue[]): CellValue[] {
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

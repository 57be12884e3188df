import type { RowKey, RowRange } from "@concord/ports";
import { compareValues, valueText, type CellValue } from "@concord/values";

/** Lexicographic over at most the shorter length: a prefix is equal to everything it begins. */
function comparePrefix(left: readonly CellValue[], right: readonly CellValue[]): number {
  const length = Math.min(left.length, right.length);
  for (let i = 0; i < length; i += 1) {
    const order = compareValues(left[i]!, right[i]!);
    if (order !== 0) return order;
  }
  return 0;
}

/** Clustering order: lexicographic, ascending. */
export function compareClustering(left: readonly CellValue[], right: readonly CellValue[]): number {
  const order = comparePrefix(left, right);
  return order === 0 ? left.length - right.length : order;
}

export function sameKey(left: RowKey, right: RowKey): boolean {
  return (
    left.table === right.table &&
    compareClustering(left.partition, right.partition) === 0 &&
    compareClustering(left.clustering, right.clustering) === 0
  );
}

/** Is the row between the bounds and after `after`? How pending rows are merged into a range read (TX5, TX28). `limit` is not looked at. */
export function inRange(range: RowRange, key: RowKey): boolean {
  const { lower, upper, after } = range;
  if (key.table !== range.table || compareClustering(key.partition, range.partition) !== 0) return false;
  if (lower !== undefined) {
    const order = comparePrefix(key.clustering, lower.prefix);
    if (order < 0 || (order === 0 && !lower.inclusive)) return false;
  }
  if (upper !== undefined) {
    const order = comparePrefix(key.clustering, upper.prefix);
    if (order > 0 || (order === 0 && !upper.inclusive)) return false;
  }
  if (after === undefined) return true;
  const order = compareClustering(key.clustering, after);
  return range.reverse ? order < 0 : order > 0;
}

/** A text that two keys share exactly when they are the same row: for maps and lock tables. */
export function keyText(key: RowKey): string {
  return `${partitionText(key.table, key.partition)}${joined(key.clustering)}`;
}

/** A text that two partitions share exactly when they are the same: the lock key of a range read. */
export function partitionText(table: string, partition: readonly CellValue[]): string {
  return `${table}${joined(partition)}|`;
}

function joined(values: readonly CellValue[]): string {
  let text = "";
  for (const value of values) text += `/${valueText(value)}`;
  return text;
}

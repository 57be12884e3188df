import type { Row, RowImage } from "@concord/ports";
import { valueBytes } from "@concord/values";

/** Bytes of a row's columns on the wire, without what frames them. `columns`: those that are answered; undefined: all. */
export function columnBytes(row: Row, columns?: ReadonlySet<string>): number {
  let bytes = 0;
  row.columns.forEach((value, name) => {
    if (columns === undefined || columns.has(name)) bytes += name.length + valueBytes(value);
  });
  return bytes;
}

/** `columnBytes` of an image: a deleted cell has its column's name. */
export function imageBytes({ cells }: RowImage): number {
  let bytes = 0;
  cells.forEach(({ value }, name) => (bytes += name.length + (value === null ? 0 : valueBytes(value))));
  return bytes;
}

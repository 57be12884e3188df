import type { CellOf, CellType, CellValue } from "./model.ts";
import { TABLE } from "./table.ts";

/** A total order over cell values, that of stored keys within a kind; null (tombstone) largest; kinds in alphabetical order. */
export function compareValues(left: CellValue | null, right: CellValue | null): number {
  if (left === null || right === null) return left === right ? 0 : left === null ? 1 : -1;
  if (left.kind !== right.kind) return left.kind < right.kind ? -1 : 1;
  if (left.value === right.value) return 0;
  return compareContents(left.kind, left, right);
}

function compareContents<Kind extends CellType>(kind: Kind, left: CellOf<Kind>, right: CellOf<Kind>): number {
  return TABLE[kind].compare(left.value, right.value);
}

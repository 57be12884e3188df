import type { CellImage, ColumnWrite, Mutation, RowImage } from "@concord/ports";
import { assert, type TimestampUs } from "@concord/runtime";

/** Mutations that, merged into any older state of the row, give at least this image: how a replica is repaired (TX30). */
export function mutationsOf(image: RowImage): Mutation[] {
  const mutations: Mutation[] = [];
  if (image.deletedAtUs !== undefined) mutations.push({ kind: "delete", key: image.key, timestampUs: image.deletedAtUs });
  const byTimestamp = new Map<TimestampUs, ColumnWrite[]>();
  if (image.markerUs !== undefined) byTimestamp.set(image.markerUs, []);
  for (const [column, cell] of image.cells) addTo(byTimestamp, column, cell);
  for (const [timestampUs, columns] of byTimestamp) {
    mutations.push({ kind: timestampUs === image.markerUs ? "insert" : "update", key: image.key, columns, timestampUs });
  }
  assert(mutations.length > 0 || image.cells.size === 0, "a repair brings every cell (TX30)");
  const columns = mutations.reduce((sum, mutation) => sum + (mutation.kind === "delete" ? 0 : mutation.columns.length), 0);
  assert(columns === image.cells.size, "a repair brings every cell once (TX30)");
  return mutations;
}

function addTo(byTimestamp: Map<TimestampUs, ColumnWrite[]>, column: string, cell: CellImage): void {
  const columns = byTimestamp.get(cell.timestampUs);
  if (columns === undefined) byTimestamp.set(cell.timestampUs, [{ column, value: cell.value }]);
  else columns.push({ column, value: cell.value });
}

import type { CellImage, ColumnWrite, Mutation, RowImage } from "@concord/ports";
import { encodeMutation } from "@concord/rows";
import { assert, type TimestampUs } from "@concord/runtime";
import { REPAIR_MUTATION_BYTES_MAX } from "./limits.ts";

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

/** `mutationsOf` as bytes, each of at most REPAIR_MUTATION_BYTES_MAX or of one column: the copy of a row of any size goes to a replica in messages. */
export function encodedMutationsOf(image: RowImage): Uint8Array[] {
  return mutationsOf(image).flatMap(encodedInParts);
}

/** Columns merge one by one, so parts with the timestamp of the whole are the whole. */
function encodedInParts(mutation: Mutation): Uint8Array[] {
  const bytes = encodeMutation(mutation);
  if (mutation.kind === "delete" || bytes.length <= REPAIR_MUTATION_BYTES_MAX || mutation.columns.length <= 1) return [bytes];
  const middle = mutation.columns.length >>> 1;
  const first = { ...mutation, columns: mutation.columns.slice(0, middle) };
  const rest = { ...mutation, kind: "update" as const, columns: mutation.columns.slice(middle) };
  return [...encodedInParts(first), ...encodedInParts(rest)];
}

function addTo(byTimestamp: Map<TimestampUs, ColumnWrite[]>, column: string, cell: CellImage): void {
  const columns = byTimestamp.get(cell.timestampUs);
  if (columns === undefined) byTimestamp.set(cell.timestampUs, [{ column, value: cell.value }]);
  else columns.push({ column, value: cell.value });
}

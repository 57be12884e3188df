import type { CellValue } from "@concord/values";
import type { TimestampUs } from "@concord/runtime";

/** A row's full address. `table` is the storage table's name (an index is a table of its own). */
export interface RowKey {
  readonly table: string;
  readonly partition: readonly CellValue[];
  readonly clustering: readonly CellValue[];
}

/** `null` deletes the cell (a tombstone with the mutation's timestamp). */
export interface ColumnWrite {
  readonly column: string;
  readonly value: CellValue | null;
}

/**
 * A resolved change of one row at a fixed timestamp; applying it any number of times, in any order with others, gives the same row.
 * `insert` also writes the row marker: the row exists even when all its columns are null. `update` does not.
 */
export type Mutation =
  | { readonly kind: "insert"; readonly key: RowKey; readonly columns: readonly ColumnWrite[]; readonly timestampUs: TimestampUs }
  | { readonly kind: "update"; readonly key: RowKey; readonly columns: readonly ColumnWrite[]; readonly timestampUs: TimestampUs }
  | { readonly kind: "delete"; readonly key: RowKey; readonly timestampUs: TimestampUs };

export interface CellImage {
  readonly timestampUs: TimestampUs;
  readonly value: CellValue | null;
}

/** A stored row with its history's outcome: what replicas exchange and merge. */
export interface RowImage {
  readonly key: RowKey;
  /** Everything at or below this timestamp is deleted. */
  readonly deletedAtUs: TimestampUs | undefined;
  /** Timestamp of the newest insert's row marker. */
  readonly markerUs: TimestampUs | undefined;
  readonly cells: ReadonlyMap<string, CellImage>;
}

/** What a user sees of a row: live cells only. */
export interface Row {
  readonly key: RowKey;
  readonly columns: ReadonlyMap<string, CellValue>;
  /** The newest timestamp in the image, tombstones included; a commit's timestamp must be above it (TX7). */
  readonly newestUs: TimestampUs;
}

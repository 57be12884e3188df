import type { ColumnWrite, RowKey } from "@concord/ports";

/** One statement's change of exactly one row, before it has a timestamp. `columns` holds no key column and is empty for a delete. */
export interface RowWrite {
  readonly kind: "insert" | "update" | "delete";
  /** The same as `key.table`. */
  readonly table: string;
  readonly key: RowKey;
  readonly columns: readonly ColumnWrite[];
}

import type { ColumnWrite, RowKey } from "@concord/ports";

/**
 * One statement's change of exactly one row, before it has a timestamp. `columns` holds no key column and is empty for a delete. "insert-new": an
 * insert that is refused when the row exists, for transactional tables.
 */
export interface RowWrite {
  readonly kind: "insert" | "insert-new" | "update" | "delete";
  /** The same as `key.table`. */
  readonly table: string;
  readonly key: RowKey;
  readonly columns: readonly ColumnWrite[];
}

import type { ColumnWrite, Row, RowKey } from "@concord/ports";
import { compareValues } from "@concord/values";
import type { TableDefinition } from "./definition.ts";

/**
 * Condition of one row, for the writes beside it (UN20). "equal": every column named has that value; null: it has none, which
 * also holds of a row that is absent. "version": the row is present and its newest write has that timestamp.
 */
export type RowCondition =
  | { readonly kind: "absent" | "present"; readonly key: RowKey }
  | { readonly kind: "equal"; readonly key: RowKey; readonly columns: readonly ColumnWrite[] }
  | { readonly kind: "version"; readonly key: RowKey; readonly versionUs: bigint };

/** A condition with the definition it was checked against. */
export interface TableCondition {
  readonly definition: TableDefinition;
  readonly condition: RowCondition;
}

/** Does the condition hold of the row? */
export function holds(condition: RowCondition, row: Row | undefined): boolean {
  switch (condition.kind) {
    case "absent":
      return row === undefined;
    case "present":
      return row !== undefined;
    case "equal":
      return condition.columns.every(({ column, value }) => compareValues(row?.columns.get(column) ?? null, value) === 0);
    case "version":
      return row !== undefined && row.newestUs === condition.versionUs;
  }
}

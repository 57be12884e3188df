import type { RowKey, RowRange } from "@concord/ports";
import type { CellValue } from "@concord/values";
import type { IndexDefinition, TableDefinition, TableKind } from "./definition.ts";
import type { RowCondition } from "./row-condition.ts";
import type { RowWrite } from "./row-write.ts";

/** What a statement or a structured request asks the machinery to do. Nothing in a plan is left to evaluate. */
export type Plan = SchemaPlan | ReadPlan | WritePlan;

export type SchemaPlan =
  /** The executor decides against the current schema whether the table exists; with `ifNotExists` that is no error. */
  | { readonly kind: "create-table"; readonly definition: TableDefinition; readonly ifNotExists: boolean }
  /** `definition` is the whole table with the index; `exists` = the same index was there already (IF NOT EXISTS): nothing to do. */
  | { readonly kind: "create-index"; readonly definition: TableDefinition; readonly index: IndexDefinition; readonly exists: boolean };

interface ReadBase {
  readonly table: string;
  /** Columns to return, in the order asked for; key columns may be among them. */
  readonly columns: readonly string[];
  /** Rows that other transactions have locked are passed over, the others locked exclusively; in a transaction only. */
  readonly skipLocked?: boolean;
}

export type ReadPlan =
  | (ReadBase & { readonly kind: "read-rows"; readonly keys: readonly RowKey[] })
  /** `range.limit` is the page size; `limit` the caller's LIMIT over all pages. */
  | (ReadBase & { readonly kind: "read-range"; readonly range: RowRange; readonly limit: number | undefined })
  /**
   * Rows found by every scan (TX20, TX28). One scan: its index rows carry the copy of the row. Several: intersect by primary key
   * (`baseKeyOf`); the order is the first scan's.
   */
  | (ReadBase & { readonly kind: "read-index"; readonly scans: readonly IndexScan[]; readonly limit: number | undefined });

export interface IndexScan {
  readonly index: IndexDefinition;
  /** A range of one partition of the index's storage table. */
  readonly range: RowRange;
}

interface WriteBase {
  /** Conditions of IF, for the writes; undefined: nothing (UN20). */
  readonly conditions?: readonly RowCondition[];
}

export type WritePlan = WriteBase & WriteOf;

type WriteOf =
  /** `timestampUs` only from USING TIMESTAMP, which only plain tables take. */
  | { readonly kind: "write"; readonly tableKind: TableKind; readonly write: RowWrite; readonly timestampUs: bigint | undefined }
  /** In statement order; several may touch one row: see `netBatch` (LBD14). All tables are of one kind. */
  | {
      readonly kind: "batch";
      readonly logged: boolean;
      readonly tableKind: TableKind;
      readonly writes: readonly RowWrite[];
      readonly timestampUs: bigint | undefined;
    };

/** One column's condition of a structured read. */
export type Constraint =
  | { readonly kind: "equal"; readonly column: string; readonly value: CellValue }
  | { readonly kind: "range"; readonly column: string; readonly lower: ValueBound | undefined; readonly upper: ValueBound | undefined };

export interface ValueBound {
  readonly value: CellValue;
  readonly inclusive: boolean;
}

/** A read as data: what a SELECT compiles to before it is planned. */
export interface ReadRequest {
  readonly table: string;
  /** undefined = all. */
  readonly columns: readonly string[] | undefined;
  /** At most one constraint per column. */
  readonly where: readonly Constraint[];
  /** Clustering columns in key order; empty = ascending. All of one direction. */
  readonly order: readonly { readonly column: string; readonly descending: boolean }[];
  readonly limit: number | undefined;
}

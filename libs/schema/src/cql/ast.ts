import type { CellType, Literal } from "@concord/values";
import type { TableKind } from "../definition.ts";

/** Where in the text something begins; line and column count from 1, in UTF-16 units. */
export interface Position {
  readonly offset: number;
  readonly line: number;
  readonly column: number;
}

/** A value as written. `bind` is the n-th `?`, from 0. */
export type Term =
  | (Literal & { readonly at: Position })
  | { readonly kind: "null"; readonly at: Position }
  | { readonly kind: "bind"; readonly index: number; readonly at: Position }
  | { readonly kind: "call"; readonly name: "now" | "uuid"; readonly at: Position };

export interface NamedColumn {
  readonly name: string;
  readonly at: Position;
}

export type Operator = "=" | "<" | "<=" | ">" | ">=";

export interface Condition {
  readonly column: NamedColumn;
  readonly operator: Operator;
  readonly term: Term;
}

export interface Assignment {
  readonly column: NamedColumn;
  readonly term: Term;
}

export interface ColumnSpec {
  readonly name: string;
  readonly type: CellType;
}

export interface CreateTable {
  readonly kind: "create-table";
  readonly table: string;
  readonly ifNotExists: boolean;
  readonly columns: readonly ColumnSpec[];
  readonly partitionKey: readonly string[];
  readonly clusteringKey: readonly string[];
  readonly tableKind: TableKind;
}

export interface CreateIndex {
  readonly kind: "create-index";
  /** undefined: named after its columns. */
  readonly name: string | undefined;
  readonly table: string;
  readonly columns: readonly string[];
  readonly ifNotExists: boolean;
}

export interface Select {
  readonly kind: "select";
  readonly table: string;
  /** undefined = `*`. */
  readonly columns: readonly string[] | undefined;
  readonly where: readonly Condition[];
  readonly order: readonly { readonly column: string; readonly descending: boolean }[];
  readonly limit: Term | undefined;
  /** FOR UPDATE SKIP LOCKED. */
  readonly skipLocked: boolean;
}

export interface Insert {
  readonly kind: "insert";
  readonly table: string;
  readonly assignments: readonly Assignment[];
  readonly condition: WriteCondition | undefined;
  readonly timestamp: Term | undefined;
}

/** IF of a write (UN20): NOT EXISTS of an INSERT, EXISTS, or columns with their values. */
export type WriteCondition =
  | { readonly kind: "absent" | "present"; readonly at: Position }
  | { readonly kind: "equal"; readonly at: Position; readonly columns: readonly Assignment[] };

export interface Update {
  readonly kind: "update";
  readonly table: string;
  readonly assignments: readonly Assignment[];
  readonly where: readonly Condition[];
  readonly condition: WriteCondition | undefined;
  readonly timestamp: Term | undefined;
}

export interface Delete {
  readonly kind: "delete";
  readonly table: string;
  readonly where: readonly Condition[];
  readonly condition: WriteCondition | undefined;
  readonly timestamp: Term | undefined;
}

export type Write = Insert | Update | Delete;

export interface Batch {
  readonly kind: "batch";
  readonly logged: boolean;
  readonly writes: readonly Write[];
  readonly timestamp: Term | undefined;
}

export type StatementBody = CreateTable | CreateIndex | Select | Write | Batch;

/** A parsed statement: pure, cacheable by its text; `bindCount` values complete it. */
export interface Statement {
  readonly body: StatementBody;
  readonly bindCount: number;
}

import type { CellValue, Mutation, RowImage, RowKey } from "./cells.ts";

export interface RowRange {
  readonly table: string;
  /** The whole partition key: a range never leaves its partition. */
  readonly partition: readonly CellValue[];
  /** Bounds on the clustering key; each is a prefix of it. Absent = open. */
  readonly lower?: { readonly prefix: readonly CellValue[]; readonly inclusive: boolean };
  readonly upper?: { readonly prefix: readonly CellValue[]; readonly inclusive: boolean };
  readonly reverse: boolean;
  /** At most this many live rows; at least 1. */
  readonly limit: number;
  /** Continue after this clustering key (in reading direction): the `next` of the page before. */
  readonly after?: readonly CellValue[];
}

export interface RowPage {
  /** Images of live rows in clustering order (or reverse). */
  readonly rows: readonly RowImage[];
  /** Clustering key of the last row, when more may follow. */
  readonly next: readonly CellValue[] | undefined;
}

export interface RowOptions {
  readonly timeoutMs: number;
}

export type Condition =
  | { readonly kind: "row-absent"; readonly key: RowKey }
  | { readonly kind: "column-equals"; readonly key: RowKey; readonly column: string; readonly value: CellValue | null };

export type ConditionalOutcome =
  | { readonly kind: "applied" }
  | { readonly kind: "not-applied"; readonly current: readonly (RowImage | undefined)[] }
  | { readonly kind: "unknown" };

/**
 * Replicated rows with quorum reads and writes. `apply` resolves when a quorum holds every mutation on synced disk. Any read that
 * starts afterwards sees them. An apply that fails is REPLICAS_UNAVAILABLE (applied: no) or WRITE_TIMEOUT (applied: unknown); repeating
 * it is harmless. `applyIf` exists where the backend has it (`supportsApplyIf`); elsewhere it is refused with USE_TRANSACTION.
 */
export interface RowStore {
  readonly supportsApplyIf: boolean;
  /** Answers in the order of `keys`; `undefined` = never written. Images may be dead rows: see `liveRow`. */
  read(keys: readonly RowKey[], options: RowOptions): Promise<(RowImage | undefined)[]>;
  readRange(range: RowRange, options: RowOptions): Promise<RowPage>;
  apply(mutations: readonly Mutation[], options: RowOptions): Promise<void>;
  applyIf(conditions: readonly Condition[], mutations: readonly Mutation[], options: RowOptions): Promise<ConditionalOutcome>;
}

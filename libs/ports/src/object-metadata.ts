import type { Span } from "@concord/runtime";

/**
 * Which state of a row was seen. The commit number grows with every write of a row (OGD5: max(observed + 1, clock in
 * microseconds)); it can repeat after the row was gone, so the GUID of its writer belongs to it.
 */
export interface RowVersion {
  readonly commit: bigint;
  readonly guid: bigint;
}

export interface MetadataRow {
  readonly key: Uint8Array;
  readonly version: RowVersion;
  readonly value: Uint8Array;
}

export interface MetadataRange {
  /** Inclusive, bytewise. */
  readonly from: Uint8Array;
  /** Exclusive. */
  readonly to: Uint8Array;
  readonly limit: number;
  readonly reverse?: boolean;
  /** Gets the key of each row that cannot be read, which is then passed over; without it such a row fails the range with CORRUPT_DATA. */
  readonly onUnreadable?: (key: Uint8Array) => void;
}

/** The row is exactly this version; undefined: there is no such row. */
export interface MetadataCondition {
  readonly key: Uint8Array;
  readonly version: RowVersion | undefined;
}

export type MetadataWrite =
  | { readonly kind: "put"; readonly row: MetadataRow }
  | { readonly kind: "delete"; readonly key: Uint8Array }
  /** Adds to counters that no condition names; an absent row counts as zeros. Read with `readCounters`. */
  | { readonly kind: "add"; readonly key: Uint8Array; readonly amounts: readonly bigint[] };

export interface MetadataCommit {
  /** All rows of one commit belong to one partition. */
  readonly partition: string;
  readonly conditions: readonly MetadataCondition[];
  readonly writes: readonly MetadataWrite[];
}

export type MetadataOutcome =
  | { readonly kind: "committed" }
  /** Nothing was written; the rows of the conditions as they are now, in their order. */
  | { readonly kind: "conflict"; readonly rows: readonly (MetadataRow | undefined)[] }
  /** It may be written, now or later: unresolved until a fence decides (OGD2). */
  | { readonly kind: "unknown"; readonly cause: unknown };

/**
 * Rows of buckets, objects, uploads, parts and garbage. Reads are serial: they see every commit that was answered, and of two reads the
 * later one never an older state. A commit writes all or nothing, and only if all its conditions hold; committed is durable. Rejects
 * only with errors that say `applied: no`.
 */
export interface ObjectMetadata {
  /** Answers in the order of `keys`. */
  read(partition: string, keys: readonly Uint8Array[]): Promise<readonly (MetadataRow | undefined)[]>;
  /** Rows in key order, without counters. */
  range(partition: string, range: MetadataRange): Promise<readonly MetadataRow[]>;
  readCounters(partition: string, key: Uint8Array): Promise<readonly bigint[]>;
  commit(commit: MetadataCommit, span?: Span): Promise<MetadataOutcome>;
}

/** Both absent, or the same commit number by the same writer. */
export function sameVersion(left: RowVersion | undefined, right: RowVersion | undefined): boolean {
  return left?.commit === right?.commit && left?.guid === right?.guid;
}

/** Counters after `amounts`; the shorter list counts as continued by zeros. */
export function addCounters(counters: readonly bigint[], amounts: readonly bigint[]): bigint[] {
  return Array.from({ length: Math.max(counters.length, amounts.length) }, (_, at) => (counters[at] ?? 0n) + (amounts[at] ?? 0n));
}

import type { Seq, TimestampUs } from "@concord/runtime";
import type { CellValue } from "@concord/values";
import type { Mutation, RowImage, RowKey } from "./rows.ts";

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
  /** Milliseconds until the call fails; above 0. */
  readonly timeoutMs: number;
  /**
   * Called once before a write resolves when newer cells were acknowledged before it, so that a part of the write has no effect; with the
   * newest of their timestamps.
   */
  readonly onSuperseded?: (newestUs: TimestampUs) => void;
}

/** Where a commit stands in its group's history. */
export interface LogPosition {
  readonly group: string;
  readonly seq: Seq;
}

export interface ReadOptions extends RowOptions {
  /**
   * Commits the reader has seen: it sees them in rows too. Where rows follow from the log a replica answers when it has applied so much; a
   * position is never proof that anything is decided (TXD14). READ_TIMEOUT when that takes longer than the call may.
   */
  readonly after?: readonly LogPosition[];
  /**
   * Milliseconds for which the caller waits at most. `timeoutMs` is for small rows; a read of large ones may take longer, by `readMs`, within this.
   * Default: READ_MORE_MS_MAX longer.
   */
  readonly longestMs?: number;
}

/**
 * Rows of groups as the replica in this very process has them, for a master that runs beside it (TXD14). What they say of a row is the
 * answer of RowStore.read when the replica has applied every entry that wrote the row.
 */
export interface LocalRows {
  /** The replica has applied the group's log up to here. */
  appliedSeq(group: string): Seq;
  /** The row's image; undefined = never written. "ask": only RowStore.read can tell. */
  peek(key: RowKey): RowImage | undefined | "ask";
}

/**
 * Replicated rows with quorum reads and writes. An `apply` that fails says what is known of it; repeating it is harmless, as the
 * mutations carry their timestamps. Keys, values and names are checked by the caller; the store takes what fits its messages.
 */
export interface RowStore {
  /**
   * Answers in the order of `keys`; `undefined` = never written. Images may be dead rows: see `liveRow`. REPLICAS_UNAVAILABLE and
   * READ_TIMEOUT: ask again; CORRUPT_DATA: a replica holds a damaged row.
   */
  read(keys: readonly RowKey[], options: ReadOptions): Promise<(RowImage | undefined)[]>;
  /** One page of live rows in clustering order. Errors as `read`. A page may be shorter than its limit and still name a `next`. */
  readRange(range: RowRange, options: ReadOptions): Promise<RowPage>;
  /**
   * Resolves when a quorum holds every mutation on synced disk; any read that starts afterwards sees them. No isolation between rows.
   * REPLICAS_UNAVAILABLE (applied: no), WRITE_TIMEOUT (applied: unknown).
   */
  apply(mutations: readonly Mutation[], options: RowOptions): Promise<void>;
}

/**
 * Rows of transactional tables, read outside a transaction so that each answer is one state between commits of their group (TXD5): it holds
 * every commit that was acknowledged before the call, all of each commit or nothing of it, and no later read of any kind sees less.
 * Errors as RowStore.read; REPLICAS_UNAVAILABLE also when the newest entry of the log stayed undecided for so long, and GROUP_MISMATCH when a
 * row follows from another group's log.
 */
export interface AtomicRows {
  /** LIMIT_EXCEEDED: more than ATOMIC_READ_KEYS_MAX keys, or rows of more bytes than one message holds. */
  read(group: string, keys: readonly RowKey[], options: ReadOptions): Promise<(RowImage | undefined)[]>;
  /** One page, which may be shorter than its limit and still name a `next`: what follows there is of another state. */
  readRange(group: string, range: RowRange, options: ReadOptions): Promise<RowPage>;
}

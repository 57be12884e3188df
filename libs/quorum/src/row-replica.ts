import type { LogPosition } from "@concord/ports";
import type { Seq, TimestampUs } from "@concord/runtime";
import type { ExchangeTime } from "./read-time.ts";

/** Bounds of stored row keys (without namespace); a page of a range. */
export interface ReplicaRange {
  /** Inclusive. */
  readonly from: Uint8Array;
  /** Exclusive. */
  readonly to: Uint8Array;
  readonly reverse: boolean;
  /** At most this many images, dead ones included. */
  readonly limit: number;
}

export interface ReplicaPage {
  /** Rows as they are stored, in reading order, dead ones included. */
  readonly rows: readonly Uint8Array[];
  /** More may follow the last row. Never without a row. */
  readonly more: boolean;
}

/**
 * A link to one replica of the rows: the local one or a session to a peer. Keys, mutations and rows are in the storage format.
 * A call that the replica never saw rejects with `applied: no`; calls settle within `timeoutMs` or the caller's own deadline counts.
 */
export interface RowReplica {
  readonly name: string;
  /** False: the last contact failed and no new one was made since. */
  readonly reachable: boolean;
  /** Names its newest collection of tombstones as far as it is known here; undefined: not known. To be noted before copies are read. */
  readonly collection: string | undefined;
  /**
   * What a client wrote. Resolves when every mutation is merged and synced: with the newest stored timestamp that a part of one of them lost to, 0 =
   * none did (I13). TIMESTAMP_OUT_OF_RANGE: as old as a deletion it has forgotten (I12).
   */
  applyRows(mutations: readonly Uint8Array[], timeoutMs: number): Promise<TimestampUs>;
  /**
   * What replicas had, read after the replica had named this collection. False: nothing is merged, tombstones may have been dropped there since:
   * they must be read anew (I11).
   */
  applyCopies(mutations: readonly Uint8Array[], collection: string | undefined, timeoutMs: number): Promise<boolean>;
  /**
   * In the order of `keys`; empty bytes = never written. Answers once it has applied the logs up to `after`. `time`: the call ends when none of it is left,
   * which may be after `timeoutMs`.
   */
  readRows(
    keys: readonly Uint8Array[],
    timeoutMs: number,
    after: readonly LogPosition[],
    time?: ExchangeTime,
  ): Promise<readonly Uint8Array[]>;
  /** As `readRows`. */
  readRowRange(range: ReplicaRange, timeoutMs: number, after: readonly LogPosition[], time?: ExchangeTime): Promise<ReplicaPage>;
  /** Resolves when the replica has applied a group's log up to `seq`; it fetches what it lacks (TX30). */
  catchUp(group: string, seq: Seq, timeoutMs: number): Promise<void>;
}

/** Rows of one group, by key or one page of a range. */
export interface GroupRead {
  readonly group: string;
  /** The answer holds every entry of the group's log up to here. */
  readonly seq: Seq;
  readonly rows: { readonly kind: "keys"; readonly keys: readonly Uint8Array[] } | { readonly kind: "range"; readonly range: ReplicaRange };
}

/** In the order of the keys, empty bytes = never written; or a page. */
export interface GroupRows extends ReplicaPage {
  /** The rows are exactly what the log up to here says. */
  readonly appliedSeq: Seq;
}

/** A link to one replica for reads of one state of a group (TXD5). */
export interface GroupReplica extends Pick<RowReplica, "name" | "reachable" | "catchUp"> {
  readGroup(read: GroupRead, timeoutMs: number): Promise<GroupRows>;
}

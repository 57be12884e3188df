import type { Epoch, Seq, Span, TimestampUs } from "@concord/runtime";

/** One flush of a transaction group's master. (seq, epoch) names it for ever: one owner per epoch, one content per (seq, epoch). */
export interface LogEntry {
  readonly seq: Seq;
  readonly epoch: Epoch;
  /** The owner's own content. */
  readonly bytes: Uint8Array;
  /** The rows that follow from the entry, as `joinRows` of @concord/rows writes them; empty = none, or their owner applies them. */
  readonly rows: Uint8Array;
}

export interface LogTail {
  /** Do the replicas apply the rows of decided entries? If not, the owner does, by RowStore.apply (TXD14). */
  readonly appliesRows: boolean;
  /** Everything at or below is decided, and its rows are applied where it says so. 0 = nothing yet. */
  readonly appliedSeq: Seq;
  /** The epoch of the entry at `appliedSeq`. */
  readonly appliedEpoch: Epoch;
  /** Entries after `appliedSeq`, without gaps, per seq the one with the highest epoch (TXR3). */
  readonly entries: readonly LogEntry[];
  /** No earlier master drew a timestamp above this one (TXD4). */
  readonly timestampCeilingUs: TimestampUs;
}

export type RaiseOutcome =
  | { readonly kind: "raised"; readonly tail: LogTail }
  | { readonly kind: "refused"; readonly promisedEpoch: Epoch; readonly owner: string }
  | { readonly kind: "unknown" };

export type AppendOutcome =
  /** Two replicas synced it (one in single-node mode): it cannot be lost any more (TX27). */
  | { readonly kind: "logged" }
  /**
   * A newer epoch was promised: its owner must drop everything (TXD1). The entry itself may still survive, when a replica had
   * accepted it before: that is the next owner's to say, so to a client its transactions are OUTCOME_UNKNOWN.
   */
  | { readonly kind: "fenced"; readonly promisedEpoch: Epoch }
  /** Logged or not: only the identical append may be sent again, and the epoch decides. */
  | { readonly kind: "unknown" };

/** Who calls: an owner of a group's log under its epoch. */
export interface GroupOwner {
  readonly group: string;
  readonly epoch: Epoch;
  readonly owner: string;
}

export interface AppendRequest extends GroupOwner {
  readonly seq: Seq;
  /** Epoch of the entry before (0 when seq = 1): a replica accepts only on top of the same history. */
  readonly previousEpoch: Epoch;
  readonly timestampCeilingUs: TimestampUs;
  /** The log's from now on: the caller changes neither these nor `rows`. */
  readonly bytes: Uint8Array;
  readonly rows: Uint8Array;
  /** The owner's mark: up to here it knows a majority (or its raise's tail said so). Below `seq`. */
  readonly decided: DecidedMark;
}

/**
 * Everything up to `seq` is decided. It moves a replica only as far as that one holds entries accepted under `epoch` or a newer one: an
 * entry of an older epoch may be another than the decided one (TXD14).
 */
export interface DecidedMark {
  readonly seq: Seq;
  readonly epoch: Epoch;
}

export interface AdvanceRequest extends GroupOwner {
  readonly decided: DecidedMark;
}

/**
 * The fenced, group-addressed commit log (TXR1-TXR4). Every answer is given after the replicas' state is synced. An epoch belongs
 * to one owner: raising to an epoch that is not above the promised one is refused, except to the same (epoch, owner) again. An
 * owner first appends the whole tail of its raise again (same seqs, same bytes, its own epoch); it has one append in flight (TXD10)
 * and sends seq n + 1 only after n was logged.
 */
export interface GroupLog {
  /** Exchanges with the replicas, one after the other, of its longest call: a caller that tries again soon gives it time for so many. At least 1. */
  readonly exchangesMax: number;
  /** Promised epoch of a group as a quorum knows it; 0 and "" when it was never raised. */
  status(group: string, timeoutMs: number): Promise<{ readonly promisedEpoch: Epoch; readonly owner: string }>;
  raise(owner: GroupOwner, timeoutMs: number): Promise<RaiseOutcome>;
  append(request: AppendRequest, timeoutMs: number, span?: Span): Promise<AppendOutcome>;
  /** Is (epoch, owner) still the promised one at a quorum? A read-only commit asks this (TXD1). */
  verify(owner: GroupOwner, timeoutMs: number): Promise<"current" | "fenced" | "unknown">;
  /**
   * Tells the replicas the owner's mark without an append. "advanced": a majority has noted it, and applied the rows where the log does
   * that. Where it does not, the owner says so only of entries whose rows it applied at quorum, and replicas may drop them. May be repeated.
   */
  advance(request: AdvanceRequest, timeoutMs: number): Promise<"advanced" | "unknown">;
}

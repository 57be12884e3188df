import type { Epoch, Seq, TimestampUs } from "@concord/runtime";

/** One flush of a transaction group's master. (seq, epoch) names it for ever: one owner per epoch, one content per (seq, epoch). */
export interface LogEntry {
  readonly seq: Seq;
  readonly epoch: Epoch;
  readonly bytes: Uint8Array;
}

export interface LogTail {
  /** Everything at or below is applied at quorum and may be trimmed. 0 = nothing yet. */
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
  readonly bytes: Uint8Array;
}

export interface TrimRequest extends GroupOwner {
  /** Entries up to here are applied at quorum. */
  readonly appliedSeq: Seq;
  /** The epoch of the entry at `appliedSeq`. */
  readonly appliedEpoch: Epoch;
}

/**
 * The fenced, group-addressed commit log (TXR1-TXR4). Every answer is given after the replicas' state is synced. An epoch belongs
 * to one owner: raising to an epoch that is not above the promised one is refused, except to the same (epoch, owner) again. An
 * owner first appends the whole tail of its raise again (same seqs, same bytes, its own epoch); it has one append in flight (TXD10)
 * and sends seq n + 1 only after n was logged.
 */
export interface GroupLog {
  /** Promised epoch of a group as a quorum knows it; 0 and "" when it was never raised. */
  status(group: string, timeoutMs: number): Promise<{ readonly promisedEpoch: Epoch; readonly owner: string }>;
  raise(owner: GroupOwner, timeoutMs: number): Promise<RaiseOutcome>;
  append(request: AppendRequest, timeoutMs: number): Promise<AppendOutcome>;
  /** Is (epoch, owner) still the promised one at a quorum? A read-only commit asks this (TXD1). */
  verify(owner: GroupOwner, timeoutMs: number): Promise<"current" | "fenced" | "unknown">;
  /** Replicas may drop what is applied at quorum. Best effort; repeated by the next trim. */
  trim(request: TrimRequest, timeoutMs: number): Promise<void>;
}

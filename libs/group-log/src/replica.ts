import type { AdvanceRequest, DecidedMark, GroupOwner, LogEntry } from "@concord/ports";
import type { Epoch, Seq, Span, TimestampUs } from "@concord/runtime";

/** What one replica knows of a group (TXR1). */
export interface ReplicaLogState {
  /** 0 = never raised. */
  readonly promisedEpoch: Epoch;
  readonly owner: string;
  /** Everything at or below is decided, and its rows are applied here (I8). */
  readonly appliedSeq: Seq;
  readonly appliedEpoch: Epoch;
  /** Last entry held; the applied one when none is. */
  readonly lastSeq: Seq;
  readonly lastEpoch: Epoch;
  readonly timestampCeilingUs: TimestampUs;
  /** Entries at or below cannot be read here any more. */
  readonly droppedSeq: Seq;
  /** Without gaps: those asked for, after a raise those after `appliedSeq`; left out elsewhere. */
  readonly entries: readonly LogEntry[];
}

export interface LogRaiseReply {
  /** False: a newer epoch, or the same of another owner, was promised before. */
  readonly promised: boolean;
  /** With the tail when promised. */
  readonly state: ReplicaLogState;
}

export interface LogAppendRequest extends GroupOwner {
  /** Epoch of the entry before the first one offered. */
  readonly previousEpoch: Epoch;
  /** At least one, without gaps, none of a newer epoch than the request's. */
  readonly entries: readonly LogEntry[];
  readonly timestampCeilingUs: TimestampUs;
  /** The owner's mark; with entries copied from another replica, that one's applied watermark, or the owner's mark when it is larger. */
  readonly decided: DecidedMark;
  /** Every replica of the ring has applied up to here: none will ask for these entries again. */
  readonly appliedByAllSeq: Seq;
}

export type LogAppendReply =
  /** Synced. Everything up to `appliedSeq` is decided and applied here. */
  | { readonly result: "accepted"; readonly appliedSeq: Seq }
  /**
   * fenced: (epoch, owner) is not the promised one; `state` tells which is, and it may be an older one: then this replica missed the raise.
   * gap: what comes before the first entry is missing here or of another history. The state is without entries.
   */
  | { readonly result: "fenced" | "gap"; readonly state: ReplicaLogState };

export interface LogReadRequest {
  readonly group: string;
  readonly fromSeq: Seq;
  readonly limit: number;
  /** The caller is itself catching up: answered by a replica that does not serve yet, too. Default false. */
  readonly recovering?: boolean;
}

export interface LogAdvanceRequest extends AdvanceRequest {
  readonly appliedByAllSeq: Seq;
}

/**
 * One replica of the group logs, local or behind a connection. Every answer is given after what it says is on disk (I1). Calls
 * reject with a ConcordError (REPLICAS_UNAVAILABLE, CONNECTION_LOST, DEADLINE_EXCEEDED, OVERLOADED, STORE_FAILED ...) at the latest
 * after `timeoutMs`.
 */
export interface LogReplica {
  /** The node's name. */
  readonly name: string;
  /** False: it is known to be gone, and nothing got through since. One that is slow, or not yet asked, is reachable. */
  readonly reachable: boolean;
  logRaise(owner: GroupOwner, timeoutMs: number): Promise<LogRaiseReply>;
  logAppend(request: LogAppendRequest, timeoutMs: number, span?: Span): Promise<LogAppendReply>;
  /** State without entries. */
  logState(group: string, timeoutMs: number): Promise<ReplicaLogState>;
  /** State with the entries asked for, kept ones included; a page of LOG_READ_BYTES_MAX. */
  logRead(request: LogReadRequest, timeoutMs: number): Promise<ReplicaLogState>;
  /** Notes the owner's mark as far as the rule of I8 allows; answers the state then. EPOCH_FENCED when (epoch, owner) is not the promised one. */
  logAdvance(request: LogAdvanceRequest, timeoutMs: number): Promise<ReplicaLogState>;
  /**
   * Resolves when everything up to `seq` is applied here; fetches what is lacking from the other replicas (TX30). REPLICAS_UNAVAILABLE when
   * that did not come in time: what was asked for may be undecided still.
   */
  logCatchUp(group: string, seq: Seq, timeoutMs: number): Promise<void>;
}

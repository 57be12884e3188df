import type { GroupOwner, LogEntry, TrimRequest } from "@concord/ports";
import type { Epoch, Seq, TimestampUs } from "@concord/runtime";

/** What one replica knows of a group (TXR1). */
export interface ReplicaLogState {
  /** 0 = never raised. */
  readonly promisedEpoch: Epoch;
  readonly owner: string;
  /** Everything at or below is applied at quorum and dropped here. */
  readonly appliedSeq: Seq;
  readonly appliedEpoch: Epoch;
  /** Last entry held; the applied one when none is. */
  readonly lastSeq: Seq;
  readonly lastEpoch: Epoch;
  readonly timestampCeilingUs: TimestampUs;
  /** Entries after `appliedSeq` without gaps; left out where not asked for. */
  readonly entries: readonly LogEntry[];
}

export interface LogRaiseReply {
  /** False: a newer epoch, or the same of another owner, was promised before. */
  readonly promised: boolean;
  /** With entries when promised. */
  readonly state: ReplicaLogState;
}

export interface LogAppendRequest extends GroupOwner {
  /** Epoch of the entry before the first one offered. */
  readonly previousEpoch: Epoch;
  /** Without gaps, none of a newer epoch than the request's. Empty only together with a base. */
  readonly entries: readonly LogEntry[];
  readonly timestampCeilingUs: TimestampUs;
  /** The base, for a replica whose missing entries were dropped elsewhere: everything up to here is applied at quorum. 0 = none. */
  readonly appliedSeq: Seq;
  readonly appliedEpoch: Epoch;
}

export interface LogAppendReply {
  /**
   * accepted: synced. fenced: (epoch, owner) is not the promised one; `state` tells which is, and it may be an older one: then this
   * replica missed the raise. gap: what comes before the first entry is missing here or of another history.
   */
  readonly result: "accepted" | "fenced" | "gap";
  /** Without entries. */
  readonly state: ReplicaLogState;
}

export interface LogReadRequest {
  readonly group: string;
  readonly fromSeq: Seq;
  readonly limit: number;
}

/**
 * One replica of the group logs, local or behind a connection. Every answer is given after what it says is on disk (I1). Calls
 * reject with a ConcordError (REPLICAS_UNAVAILABLE, CONNECTION_LOST, DEADLINE_EXCEEDED, OVERLOADED, STORE_FAILED ...) at the latest
 * after `timeoutMs`.
 */
export interface LogReplica {
  /** The node's name. */
  readonly name: string;
  logRaise(owner: GroupOwner, timeoutMs: number): Promise<LogRaiseReply>;
  logAppend(request: LogAppendRequest, timeoutMs: number): Promise<LogAppendReply>;
  /** State without entries. */
  logState(group: string, timeoutMs: number): Promise<ReplicaLogState>;
  /** State with the entries asked for. */
  logRead(request: LogReadRequest, timeoutMs: number): Promise<ReplicaLogState>;
  /** EPOCH_FENCED when (epoch, owner) is not the promised one. */
  logTrim(request: TrimRequest, timeoutMs: number): Promise<void>;
}

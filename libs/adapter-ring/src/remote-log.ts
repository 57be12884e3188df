import type {
  LogAdvanceRequest,
  LogAppendReply,
  LogAppendRequest,
  LogRaiseReply,
  LogReadRequest,
  LogReplica,
  ReplicaLogState,
} from "@concord/group-log";
import type { GroupOwner, LogEntry } from "@concord/ports";
import type * as wire from "@concord/protos-storage";
import { ConcordError, epochOf, isTimestampUs, seqOf, type Seq } from "@concord/runtime";
import type { PeerSession } from "./peer-session.ts";

const RESULTS = {
  LOG_APPEND_RESULT_UNSPECIFIED: undefined,
  LOG_APPEND_RESULT_ACCEPTED: "accepted",
  LOG_APPEND_RESULT_FENCED: "fenced",
  LOG_APPEND_RESULT_GAP: "gap",
} as const;

/** A peer's group logs. */
export class RemoteLogReplica implements LogReplica {
  readonly name: string;
  readonly #peer: PeerSession;

  constructor(peer: PeerSession) {
    this.name = peer.name;
    this.#peer = peer;
  }

  async logRaise(owner: GroupOwner, timeoutMs: number): Promise<LogRaiseReply> {
    const response = await this.#peer.call("logRaise", owner satisfies wire.LogRaiseRequest, timeoutMs);
    return { promised: response.promised, state: logStateFromWire(response.state) };
  }

  async logAppend(request: LogAppendRequest, timeoutMs: number): Promise<LogAppendReply> {
    const { decided, entries, ...rest } = request;
    const mark = { appliedSeq: decided.seq, appliedEpoch: decided.epoch };
    const message: wire.LogAppendRequest = { ...rest, ...mark, entries: entries.map(entryToWire) };
    const response = await this.#peer.call("logAppend", message, timeoutMs);
    const result = RESULTS[response.result];
    if (result === undefined) throw new ConcordError("INTERNAL", `${this.name} answered an append with ${response.result}`);
    return { result, state: logStateFromWire(response.state) };
  }

  async logState(group: string, timeoutMs: number): Promise<ReplicaLogState> {
    return logStateFromWire((await this.#peer.call("logState", { group }, timeoutMs)).state);
  }

  async logRead(request: LogReadRequest, timeoutMs: number): Promise<ReplicaLogState> {
    const message: wire.LogReadRequest = { recovering: false, ...request };
    return logStateFromWire((await this.#peer.call("logRead", message, timeoutMs)).state);
  }

  async logAdvance({ decided, ...rest }: LogAdvanceRequest, timeoutMs: number): Promise<ReplicaLogState> {
    const message: wire.LogTrimRequest = { ...rest, appliedSeq: decided.seq, appliedEpoch: decided.epoch };
    return logStateFromWire((await this.#peer.call("logTrim", message, timeoutMs)).state);
  }

  async logCatchUp(group: string, seq: Seq, timeoutMs: number): Promise<void> {
    await this.#peer.call("logCatchUp", { group, seq }, timeoutMs);
  }
}

export function logStateToWire(state: ReplicaLogState): wire.ReplicaLogState {
  return { ...state, entries: state.entries.map(entryToWire) };
}

export function logStateFromWire(state: wire.ReplicaLogState | null): ReplicaLogState {
  if (state === null) throw new ConcordError("INTERNAL", "a peer answered without its log state");
  const { timestampCeilingUs } = state;
  if (!isTimestampUs(timestampCeilingUs)) throw new ConcordError("INTERNAL", `a peer answered with a ceiling of ${timestampCeilingUs} us`);
  return {
    promisedEpoch: epochOf(state.promisedEpoch),
    owner: state.owner,
    appliedSeq: seqOf(state.appliedSeq),
    appliedEpoch: epochOf(state.appliedEpoch),
    lastSeq: seqOf(state.lastSeq),
    lastEpoch: epochOf(state.lastEpoch),
    timestampCeilingUs,
    droppedSeq: seqOf(state.droppedSeq),
    entries: state.entries.map(entryFromWire),
  };
}

function entryToWire({ seq, epoch, bytes, rows }: LogEntry): wire.ReplicaLogEntry {
  return { seq, epoch, content: bytes, rows };
}

/** Copies: views would keep the whole frame in memory for as long as the entry lives. */
export function entryFromWire({ seq, epoch, content, rows }: wire.ReplicaLogEntry): LogEntry {
  return { seq: seqOf(seq), epoch: epochOf(epoch), bytes: Uint8Array.from(content), rows: Uint8Array.from(rows) };
}

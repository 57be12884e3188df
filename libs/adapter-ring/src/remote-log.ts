import type { LogAppendReply, LogAppendRequest, LogRaiseReply, LogReadRequest, LogReplica, ReplicaLogState } from "@concord/group-log";
import type { GroupOwner, LogEntry, TrimRequest } from "@concord/ports";
import type * as wire from "@concord/protos-storage";
import { ConcordError, epochOf, isTimestampUs, seqOf } from "@concord/runtime";
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
    const message: wire.LogAppendRequest = { ...request, entries: request.entries.map(entryToWire) };
    const response = await this.#peer.call("logAppend", message, timeoutMs);
    const result = RESULTS[response.result];
    if (result === undefined) throw new ConcordError("INTERNAL", `${this.name} answered an append with ${response.result}`);
    return { result, state: logStateFromWire(response.state) };
  }

  async logState(group: string, timeoutMs: number): Promise<ReplicaLogState> {
    return logStateFromWire((await this.#peer.call("logState", { group }, timeoutMs)).state);
  }

  async logRead(request: LogReadRequest, timeoutMs: number): Promise<ReplicaLogState> {
    return logStateFromWire((await this.#peer.call("logRead", request satisfies wire.LogReadRequest, timeoutMs)).state);
  }

  async logTrim(request: TrimRequest, timeoutMs: number): Promise<void> {
    await this.#peer.call("logTrim", request satisfies wire.LogTrimRequest, timeoutMs);
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
    entries: state.entries.map(entryFromWire),
  };
}

function entryToWire(entry: LogEntry): wire.ReplicaLogEntry {
  return { seq: entry.seq, epoch: entry.epoch, content: entry.bytes };
}

/** A copy: a view would keep the whole frame in memory for as long as the entry lives. */
function entryFromWire(entry: wire.ReplicaLogEntry): LogEntry {
  return { seq: seqOf(entry.seq), epoch: epochOf(entry.epoch), bytes: Uint8Array.from(entry.content) };
}

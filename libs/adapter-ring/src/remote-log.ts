import type { LogAppendReply, LogAppendRequest, LogRaiseReply, LogReadRequest, LogReplica, ReplicaLogState } from "@concord/group-log";
import type { GroupOwner, LogEntry, TrimRequest } from "@concord/ports";
import { ConcordError, type Epoch } from "@concord/runtime";
import type { PeerSession } from "./peer-session.ts";

interface WireEntry {
  readonly seq: bigint;
  readonly epoch: Epoch;
  readonly content: Uint8Array;
}

/** concord.storage.v1.ReplicaLogState as a plain object. */
export interface WireLogState extends Omit<ReplicaLogState, "entries"> {
  readonly entries: readonly WireEntry[];
}

const RESULTS = { LOG_APPEND_RESULT_ACCEPTED: "accepted", LOG_APPEND_RESULT_FENCED: "fenced", LOG_APPEND_RESULT_GAP: "gap" } as const;
type WireResult = keyof typeof RESULTS;

/** A peer's group logs. */
export class RemoteLogReplica implements LogReplica {
  readonly name: string;
  readonly #peer: PeerSession;

  constructor(peer: PeerSession) {
    this.name = peer.name;
    this.#peer = peer;
  }

  async logRaise(owner: GroupOwner, timeoutMs: number): Promise<LogRaiseReply> {
    const response = await this.#peer.call<{ promised: boolean; state: WireLogState | null }>("logRaise", owner, timeoutMs);
    return { promised: response.promised, state: logStateFromWire(response.state) };
  }

  async logAppend(request: LogAppendRequest, timeoutMs: number): Promise<LogAppendReply> {
    const message = { ...request, entries: request.entries.map(entryToWire) };
    const response = await this.#peer.call<{ result: string; state: WireLogState | null }>("logAppend", message, timeoutMs);
    if (!isResult(response.result)) throw new ConcordError("INTERNAL", `${this.name} answered an append with ${response.result}`);
    return { result: RESULTS[response.result], state: logStateFromWire(response.state) };
  }

  async logState(group: string, timeoutMs: number): Promise<ReplicaLogState> {
    return logStateFromWire((await this.#peer.call<{ state: WireLogState | null }>("logState", { group }, timeoutMs)).state);
  }

  async logRead(request: LogReadRequest, timeoutMs: number): Promise<ReplicaLogState> {
    return logStateFromWire((await this.#peer.call<{ state: WireLogState | null }>("logRead", request, timeoutMs)).state);
  }

  async logTrim(request: TrimRequest, timeoutMs: number): Promise<void> {
    await this.#peer.call("logTrim", request, timeoutMs);
  }
}

export function logStateToWire(state: ReplicaLogState): WireLogState {
  return { ...state, entries: state.entries.map(entryToWire) };
}

export function logStateFromWire(state: WireLogState | null): ReplicaLogState {
  if (state === null) throw new ConcordError("INTERNAL", "a peer answered without its log state");
  return { ...state, entries: state.entries.map(entryFromWire) };
}

function entryToWire(entry: LogEntry): WireEntry {
  return { seq: entry.seq, epoch: entry.epoch, content: entry.bytes };
}

/** A copy: a view would keep the whole frame in memory for as long as the entry lives. */
function entryFromWire(entry: WireEntry): LogEntry {
  return { seq: entry.seq, epoch: entry.epoch, bytes: Uint8Array.from(entry.content) };
}

function isResult(result: string): result is WireResult {
  return result in RESULTS;
}

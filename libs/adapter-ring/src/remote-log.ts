import type {
  LogAdvanceRequest,
  LogAppendReply,
  LogAppendRequest,
  LogRaiseReply,
  LogReadRequest,
  LogReplica,
  ReplicaLogState,
} from "@concord/group-log";
import type { GroupOwner } from "@concord/ports";
import type * as wire from "@concord/protos-storage";
import type { Seq, Span } from "@concord/runtime";
import { AppendLane } from "./append-lane.ts";
import { logStateFromWire } from "./log-messages.ts";
import type { PeerSession } from "./peer-session.ts";

/** A peer's group logs. */
export class RemoteLogReplica implements LogReplica {
  readonly name: string;
  readonly #peer: PeerSession;
  readonly #lane: AppendLane;

  constructor(peer: PeerSession) {
    this.name = peer.name;
    this.#peer = peer;
    this.#lane = new AppendLane(peer);
  }

  get reachable(): boolean {
    return this.#peer.reachable;
  }

  async logRaise(owner: GroupOwner, timeoutMs: number): Promise<LogRaiseReply> {
    const response = await this.#peer.call("logRaise", owner satisfies wire.LogRaiseRequest, timeoutMs);
    return { promised: response.promised, state: logStateFromWire(response.state) };
  }

  logAppend(request: LogAppendRequest, timeoutMs: number, span?: Span): Promise<LogAppendReply> {
    return this.#lane.append(request, timeoutMs, span);
  }

  async logState(group: string, timeoutMs: number): Promise<ReplicaLogState> {
    return logStateFromWire((await this.#peer.call("logState", { group }, timeoutMs)).state);
  }

  async logRead(request: LogReadRequest, timeoutMs: number): Promise<ReplicaLogState> {
    const message: wire.LogReadRequest = { recovering: false, ...request };
    return logStateFromWire((await this.#peer.call("logRead", message, timeoutMs)).state);
  }

  /** Leaves in one frame with what is appended in this turn: the two share a sync at the peer. */
  async logAdvance({ decided, ...rest }: LogAdvanceRequest, timeoutMs: number): Promise<ReplicaLogState> {
    await new Promise<void>((resolve) => this.#peer.clock.defer(resolve));
    const message: wire.LogTrimRequest = { ...rest, appliedSeq: decided.seq, appliedEpoch: decided.epoch };
    return logStateFromWire((await this.#peer.call("logTrim", message, timeoutMs)).state);
  }

  async logCatchUp(group: string, seq: Seq, timeoutMs: number): Promise<void> {
    await this.#peer.call("logCatchUp", { group, seq }, timeoutMs);
  }
}

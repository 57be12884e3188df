import type { LogAppendReply, LogAppendRequest } from "@concord/group-log";
import type * as wire from "@concord/protos-storage";
import { fromStatus } from "@concord/rpc";
import { assert, ConcordError, seqOf, toConcordError, type Clock, type Span } from "@concord/runtime";
import { entryToWire, logStateFromWire } from "./log-messages.ts";
import { LANE_BYTES_MAX, LANE_MESSAGE_BYTES_TARGET, LANE_MESSAGE_APPENDS_MAX } from "./limits.ts";
import type { PeerSession } from "./peer-session.ts";

interface Waiting {
  readonly request: LogAppendRequest;
  readonly bytes: number;
  readonly deadlineAtMs: number;
  readonly span: Span | undefined;
  readonly resolve: (reply: LogAppendReply) => void;
  readonly reject: (error: ConcordError) => void;
}

type State =
  | { readonly kind: "idle" }
  /** What else this turn brings goes along. */
  | { readonly kind: "collecting" }
  | { readonly kind: "sent" };

/**
 * What this node's groups append at one peer: one message on its way, the next one collects. So the entries of all groups share the message,
 * the step and the sync at the peer, the more of them the busier it is, and a slow peer costs bounded memory.
 */
export class AppendLane {
  readonly #peer: PeerSession;
  readonly #clock: Clock;
  #state: State = { kind: "idle" };
  #waiting: Waiting[] = [];
  #waitingBytes = 0;

  constructor(peer: PeerSession) {
    this.#peer = peer;
    this.#clock = peer.clock;
  }

  /** OVERLOADED, `applied: no`: too much waits for this peer. */
  append(request: LogAppendRequest, timeoutMs: number, span?: Span): Promise<LogAppendReply> {
    const bytes = bytesOf(request);
    if (this.#waitingBytes + bytes > LANE_BYTES_MAX) return Promise.reject(overloaded(this.#peer.name));
    return new Promise((resolve, reject) => {
      this.#waiting.push({ request, bytes, deadlineAtMs: this.#clock.monotonicMs() + timeoutMs, span, resolve, reject });
      this.#waitingBytes += bytes;
      if (this.#state.kind === "idle") this.#collect();
    });
  }

  #collect(): void {
    this.#state = { kind: "collecting" };
    this.#clock.defer(() => this.#send(), "this");
  }

  #send(): void {
    assert(this.#state.kind === "collecting", "one message on its way");
    const nowMs = this.#clock.monotonicMs();
    const appends = this.#take(nowMs);
    if (appends.length === 0) {
      this.#state = { kind: "idle" };
      return;
    }
    this.#state = { kind: "sent" };
    let deadlineAtMs = nowMs;
    for (const append of appends) deadlineAtMs = Math.max(deadlineAtMs, append.deadlineAtMs);
    // The call is part of the first trace in it; the others show how long their appends took.
    const span = appends.find((append) => append.span !== undefined)?.span;
    this.#peer.call("replicate", { appends: appends.map(({ request }) => appendToWire(request)) }, deadlineAtMs - nowMs, { span }).then(
      ({ appended }) => this.#answered(appends, appended),
      (thrown: unknown) => {
        const error = toConcordError(thrown);
        for (const { reject } of appends) reject(error);
        this.#next();
      },
    );
  }

  #answered(appends: readonly Waiting[], appended: readonly wire.LogAppended[]): void {
    for (const [at, { resolve, reject }] of appends.entries()) {
      try {
        resolve(replyOf(this.#peer.name, appended[at]));
      } catch (thrown) {
        reject(toConcordError(thrown));
      }
    }
    this.#next();
  }

  /** What the answers lead to at once goes along: the groups that wait for one message share the next one again. */
  #next(): void {
    this.#state = { kind: "collecting" };
    this.#clock.defer(() => this.#clock.defer(() => this.#send()));
  }

  /** The oldest ones that fit into a message, at least one; those whose time is over never leave. */
  #take(nowMs: number): Waiting[] {
    const taken: Waiting[] = [];
    let bytes = 0;
    let at = 0;
    for (; at < this.#waiting.length && taken.length < LANE_MESSAGE_APPENDS_MAX && bytes < LANE_MESSAGE_BYTES_TARGET; at += 1) {
      const append = this.#waiting[at]!;
      this.#waitingBytes -= append.bytes;
      if (append.deadlineAtMs <= nowMs) {
        append.reject(
          new ConcordError("DEADLINE_EXCEEDED", `the deadline passed before ${this.#peer.name} was sent the entry`, { applied: "no" }),
        );
        continue;
      }
      bytes += append.bytes;
      taken.push(append);
    }
    this.#waiting = at === this.#waiting.length ? [] : this.#waiting.slice(at);
    return taken;
  }
}

function appendToWire({ decided, entries, ...rest }: LogAppendRequest): wire.LogAppend {
  return { ...rest, appliedSeq: decided.seq, appliedEpoch: decided.epoch, entries: entries.map(entryToWire) };
}

function replyOf(peer: string, appended: wire.LogAppended | undefined): LogAppendReply {
  if (appended === undefined) throw new ConcordError("INTERNAL", `${peer} did not answer an append`);
  switch (appended.result) {
    case "LOG_APPEND_RESULT_ACCEPTED":
      return { result: "accepted", appliedSeq: seqOf(appended.appliedSeq) };
    case "LOG_APPEND_RESULT_FENCED":
      return { result: "fenced", state: logStateFromWire(appended.state) };
    case "LOG_APPEND_RESULT_GAP":
      return { result: "gap", state: logStateFromWire(appended.state) };
    default: {
      const error = appended.error === null ? undefined : fromStatus(appended.error);
      throw error ?? new ConcordError("INTERNAL", `${peer} answered an append with ${appended.result}`);
    }
  }
}

function bytesOf({ entries }: LogAppendRequest): number {
  let bytes = 0;
  for (const entry of entries) bytes += entry.bytes.length + entry.rows.length;
  return bytes;
}

function overloaded(peer: string): ConcordError {
  const metadata = { limit: "LANE_BYTES_MAX", value: String(LANE_BYTES_MAX) };
  return new ConcordError("OVERLOADED", `too many entries wait for ${peer}`, { applied: "no", metadata });
}

/**
 * The server's end of a session stream. Calls of a frame are begun in their order and run concurrently; replies of one turn leave
 * in as few frames as the limits allow; each reply gives its credit back.
 */
import {
  ConcordError,
  parseTraceparent,
  RotatingMap,
  toConcordError,
  TRACEPARENT_KEY,
  type CallContext,
  type MessageStream,
  type Metadata,
  type Span,
} from "@concord/runtime";
import type { Caller } from "./auth.ts";
import { Deadlines } from "./deadlines.ts";
import { encodeReply, type CallId, type EncodedReply, type FrameOperation, type IncomingCall, type OutgoingReply } from "./frames.ts";
import { TIMEOUT_MS_MAX } from "./limits.ts";
import type { CallOwner } from "./places.ts";
import { requestIdOfCall } from "./request-id.ts";
import type { RunContext, ServiceCore, SessionContext } from "./service-core.ts";
import { SessionOutput } from "./session-output.ts";
import { toStatus } from "./status.ts";

/** Who opened the stream, and the id of the session. */
export interface SessionCaller {
  readonly id: number;
  readonly owner: CallOwner;
  readonly caller: Caller;
}

export interface ServerSession {
  /** No new calls; the stream is ended with DRAINING as soon as nothing is in flight on it. */
  drain(): void;
}

/** `onClosed` is called once, when the stream has ended and nothing of it runs any more. */
export function serveSession(
  core: ServiceCore,
  stream: MessageStream,
  context: CallContext,
  caller: SessionCaller,
  onClosed: () => void,
): ServerSession {
  return new Session(core, stream, context, caller, onClosed);
}

/**
 * open: both sides send. finishing: the client has half-closed; calls in flight are still answered. ended: nothing is sent any more;
 * handlers may still run.
 */
type Phase = "open" | "finishing" | "ended";

class Session implements ServerSession, SessionContext {
  readonly id: number;
  readonly peer: string;
  readonly metadata: Metadata;
  readonly caller: Caller;
  readonly owner: CallOwner;
  readonly core: ServiceCore;
  readonly #stream: MessageStream;
  readonly #onClosed: () => void;
  /** Calls not yet answered; one that outlived its deadline runs on without its id. */
  readonly #unanswered = new RotatingMap<CallId, RunningCall>();
  readonly #deadlines: Deadlines;
  /** Of calls that have none of their own. A session outlives the span that opened it, so of its traceparent only a no counts. */
  readonly #traceparent: string | undefined;
  readonly #endListeners: (() => void)[] = [];
  readonly #frameLabels: { readonly in: Readonly<Record<string, string>>; readonly out: Readonly<Record<string, string>> };
  readonly #output: SessionOutput | undefined;
  #outbox: OutgoingReply[] = [];
  /** In the next frame at most: halved when a frame is too large, doubled when one is not. */
  #frameReplies: number;
  /** Handlers that have not settled. */
  #running = 0;
  /** Calls received whose reply has not left yet: never above the credits granted. */
  #outstanding = 0;
  #phase: Phase = "open";
  #draining = false;
  #blocked = false;
  #flushScheduled = false;
  #closed = false;

  constructor(core: ServiceCore, stream: MessageStream, context: CallContext, caller: SessionCaller, onClosed: () => void) {
    this.id = caller.id;
    this.peer = context.peer;
    this.metadata = context.metadata;
    this.caller = caller.caller;
    this.owner = caller.owner;
    const opener = context.metadata[TRACEPARENT_KEY];
    this.#traceparent = opener !== undefined && parseTraceparent(opener)?.isSampled === false ? opener : undefined;
    this.core = core;
    this.#stream = stream;
    this.#onClosed = onClosed;
    this.#frameLabels = { in: { service: core.name, direction: "in" }, out: { service: core.name, direction: "out" } };
    this.#output = context.output === undefined ? undefined : new SessionOutput(context.output, stream, (reason) => this.#end(reason));
    this.#frameReplies = core.limits.frameCallsMax;
    this.#deadlines = new Deadlines(core.environment.clock, (nowMs) => this.#expire(nowMs));
    stream.onMessage((message) => this.#receive(message as readonly IncomingCall[]));
    stream.onDrain(() => {
      this.#blocked = false;
      this.#output?.taken();
      this.#flush();
    });
    stream.onEnd((error) => this.#onStreamEnd(error));
    // A client whose connection is lost ends its side first, as in good order.
    context.signal.addEventListener("abort", () => this.#end(undefined), { once: true });
    this.#blocked = !stream.send({ replies: [], credits: core.limits.sessionOutstandingMax });
  }

  onEnd(listener: () => void): void {
    if (this.#phase === "open") this.#endListeners.push(listener);
    else listener();
  }

  drain(): void {
    this.#draining = true;
    this.#closeIfDone();
  }

  #receive(calls: readonly IncomingCall[]): void {
    if (this.#phase !== "open") return;
    this.core.environment.metrics.count("rpc_server_session_frames_total", 1, this.#frameLabels.in);
    if (calls.length > this.core.limits.frameCallsMax) {
      this.#refuseStream("LIMIT_EXCEEDED", `a frame has ${calls.length} calls, at most ${this.core.limits.frameCallsMax} are allowed`);
      return;
    }
    const nowMs = this.core.environment.clock.monotonicMs();
    for (const call of calls) {
      if (call.callId === 0) {
        this.#refuseStream("MALFORMED_REQUEST", "a call has no call_id");
        return;
      }
      this.#outstanding += 1;
      if (this.#outstanding > this.core.limits.sessionOutstandingMax) {
        this.#refuseStream("LIMIT_EXCEEDED", `more than the ${this.core.limits.sessionOutstandingMax} granted calls are outstanding`);
        return;
      }
      this.#begin(call, nowMs);
    }
  }

  #begin({ callId, timeoutMs, operation, request, traceparent }: IncomingCall, nowMs: number): void {
    if (operation === undefined) return this.#refuse(callId, "the call names no operation of this service");
    if (timeoutMs === 0) return this.#refuse(callId, "timeout_ms must be above 0");
    if (this.#unanswered.has(callId)) return this.#refuse(callId, `call_id ${callId} is already in flight`);
    const call = new RunningCall(this, callId, operation, nowMs + Math.min(timeoutMs, TIMEOUT_MS_MAX), traceparent ?? this.#traceparent);
    this.#running += 1;
    this.#unanswered.set(callId, call);
    this.#deadlines.add(call.deadlineAtMs);
    this.core.run(this.core.operations.get(operation.name)!, request!, call, nowMs);
  }

  /** The handler of the call has settled. */
  finish(call: RunningCall, error: ConcordError | undefined, response: object | undefined): void {
    const { callId, operation } = call;
    this.#running -= 1;
    if (this.#unanswered.get(callId) === call) {
      this.#unanswered.delete(callId);
      this.#reply(error === undefined ? { kind: "response", callId, operation, response: response! } : failure(callId, error));
    }
    this.#closeIfDone();
  }

  /** The clients no longer wait for calls whose time is over: their credits return, their signals abort, and the handlers may run on. */
  #expire(nowMs: number): number {
    let nextAtMs = Infinity;
    for (const call of this.#unanswered.values()) {
      if (call.deadlineAtMs > nowMs) {
        nextAtMs = Math.min(nextAtMs, call.deadlineAtMs);
        continue;
      }
      this.#unanswered.delete(call.callId);
      call.abort();
      this.#reply(failure(call.callId, new ConcordError("DEADLINE_EXCEEDED", "the deadline of the call has passed")));
    }
    return nextAtMs;
  }

  #refuse(callId: CallId, text: string): void {
    this.#reply(failure(callId, new ConcordError("MALFORMED_REQUEST", text)));
  }

  #reply(reply: OutgoingReply): void {
    if (this.#phase === "ended") return;
    this.#outbox.push(reply);
    if (this.#blocked) this.#keepUnread(this.#outbox.length - 1);
    if (this.#flushScheduled || this.#blocked) return;
    this.#flushScheduled = true;
    this.core.environment.clock.defer(() => {
      this.#flushScheduled = false;
      this.#flush();
    }, "this");
  }

  #flush(): void {
    while (this.#outbox.length > 0 && !this.#blocked && this.#phase !== "ended") {
      this.#sendReplies(this.#outbox.splice(0, this.#frameReplies));
    }
    if (this.#blocked) this.#keepUnread(0);
    else this.#output?.release();
    this.#closeIfDone();
  }

  /** One frame. Replies of a frame that is too large return to the outbox, and the next frame has half as many. */
  #sendReplies(replies: OutgoingReply[]): void {
    this.#outstanding -= replies.length;
    let isFree: boolean;
    try {
      isFree = this.#sendFrame(replies);
    } catch (thrown) {
      if (replies.length > 1) {
        this.#outstanding += replies.length;
        this.#outbox = [...replies, ...this.#outbox];
        this.#frameReplies = replies.length >>> 1;
        return;
      }
      isFree = this.#sendFrame([this.#unsendable(replies[0]!, thrown)]);
    }
    this.#blocked = !isFree;
    this.#frameReplies = Math.min(this.core.limits.frameCallsMax, 2 * this.#frameReplies);
  }

  /** The client takes nothing: of replies from here on only their bytes are kept, as many as the process has memory for. */
  #keepUnread(from: number): void {
    const output = this.#output;
    if (output === undefined || this.#phase === "ended") return;
    if (from === 0 && !output.begin(this.#outbox)) return this.#end(output.full());
    for (let at = from; at < this.#outbox.length; at += 1) {
      const reply = this.#outbox[at]!;
      if (reply.kind === "encoded") continue;
      const kept = this.#kept(output, reply);
      if (kept === undefined) return this.#end(output.full());
      this.#outbox[at] = kept;
    }
  }

  #kept(output: SessionOutput, reply: OutgoingReply): OutgoingReply | undefined {
    const encoded = this.#encoded(reply);
    if (output.add(encoded)) return encoded;
    if (!output.isLarge(encoded)) return undefined;
    const refusal = this.#encoded(failure(reply.callId, output.full()));
    return output.add(refusal) ? refusal : undefined;
  }

  #encoded(reply: OutgoingReply): EncodedReply {
    const { messageBytesMax } = this.core.limits;
    try {
      return encodeReply(reply, messageBytesMax);
    } catch (thrown) {
      return encodeReply(this.#unsendable(reply, thrown), messageBytesMax);
    }
  }

  #sendFrame(replies: readonly OutgoingReply[]): boolean {
    const isFree = this.#stream.send({ replies, credits: replies.length });
    this.core.environment.metrics.count("rpc_server_session_frames_total", 1, this.#frameLabels.out);
    return isFree;
  }

  /** A reply that is too large, or none of the contract, becomes an error: it must not break the stream for the others. */
  #unsendable(reply: OutgoingReply, thrown: unknown): OutgoingReply {
    const error = toConcordError(thrown);
    if (error.code === "LIMIT_EXCEEDED") return failure(reply.callId, error);
    this.core.environment.log.error("a reply cannot be encoded", { service: this.core.name, reason: String(thrown) });
    return failure(reply.callId, new ConcordError("INTERNAL", "the answer cannot be encoded"));
  }

  /** Ends the stream for what the client did. Calls in flight are not answered any more, so nothing is said about them. */
  #refuseStream(code: "LIMIT_EXCEEDED" | "MALFORMED_REQUEST", text: string): void {
    this.#end(new ConcordError(code, text, { applied: this.#running === 0 ? "no" : "unknown" }));
  }

  #onStreamEnd(error: Error | undefined): void {
    if (this.#phase !== "open") {
      this.#phase = "ended";
      this.#closeIfDone();
      return;
    }
    if (error !== undefined) {
      this.#end(undefined);
      return;
    }
    this.#phase = "finishing";
    this.#notifyEnd();
    this.#closeIfDone();
  }

  #end(error: ConcordError | undefined): void {
    if (this.#phase === "ended") return;
    const wasOpen = this.#phase === "open";
    this.#phase = "ended";
    this.#outbox = [];
    this.#output?.release();
    const calls = [...this.#unanswered.values()];
    this.#unanswered.clear();
    this.#deadlines.clear();
    this.#stream.end(error);
    for (const call of calls) call.abort();
    if (wasOpen) this.#notifyEnd();
    this.#closeIfDone();
  }

  #notifyEnd(): void {
    for (const listener of this.#endListeners.splice(0)) listener();
  }

  #closeIfDone(): void {
    const idle = this.#unanswered.size === 0 && this.#outbox.length === 0;
    // Every call that was received is answered before the stream is ended with DRAINING: it tells the client that nothing of
    // what is still unanswered was begun (I3).
    if (this.#phase === "open" && this.#draining && idle) {
      this.#end(new ConcordError("DRAINING", `${this.core.name} is shutting down; call another server`));
      return;
    }
    if (this.#phase === "finishing" && idle) {
      this.#end(undefined);
      return;
    }
    if (this.#phase === "ended" && this.#running === 0 && !this.#closed) {
      this.#closed = true;
      this.#onClosed();
    }
  }
}

/** A call in flight; it is the handler's context too. */
class RunningCall implements RunContext {
  readonly session: Session;
  readonly callId: CallId;
  readonly operation: FrameOperation;
  readonly deadlineAtMs: number;
  readonly traceparent: string | undefined;
  span: Span | undefined = undefined;
  place: RunContext["place"] = "calls";
  /** Made on first use of the signal: most handlers never use it. */
  #controller: AbortController | undefined;
  #aborted = false;

  constructor(session: Session, callId: CallId, operation: FrameOperation, deadlineAtMs: number, traceparent: string | undefined) {
    this.session = session;
    this.callId = callId;
    this.operation = operation;
    this.deadlineAtMs = deadlineAtMs;
    this.traceparent = traceparent;
  }

  finish(error: ConcordError | undefined, response: object | undefined): void {
    this.session.finish(this, error, response);
  }

  waits(): boolean {
    return this.session.core.moveToWaiting(this);
  }

  get metadata(): Metadata {
    return this.session.metadata;
  }

  get peer(): string {
    return this.session.peer;
  }

  get caller(): Caller {
    return this.session.caller;
  }

  get owner(): CallOwner {
    return this.session.owner;
  }

  get requestId(): string | undefined {
    return requestIdOfCall(this.session.metadata, this.callId);
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#aborted) this.#controller.abort();
    }
    return this.#controller.signal;
  }

  abort(): void {
    this.#aborted = true;
    this.#controller?.abort();
  }
}

function failure(callId: CallId, error: ConcordError): OutgoingReply {
  return { kind: "error", callId, status: toStatus(error) };
}

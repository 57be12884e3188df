/**
 * The client's end of a session stream: many calls on one stream, coalesced into frames, under the credits the server grants. Opens
 * the stream at the first call and again at the next call after it broke.
 */
import type { Method, ServiceContract } from "@concord/protos";
import type { Status } from "@concord/protos/google.rpc";
import {
  assert,
  backoffMs,
  ConcordError,
  RotatingMap,
  toConcordError,
  type Channel,
  type Clock,
  type MessageStream,
  type Metadata,
  type Span,
} from "@concord/runtime";
import type { MethodOfOperation, OperationName, RequestInitOf, ResponseOf } from "./contract-types.ts";
import { Deadlines } from "./deadlines.ts";
import { sendInFrames, SessionFrames, type CallId, type IncomingReplies, type IncomingReply, type OutgoingCall } from "./frames.ts";
import { CLIENT_QUEUE_MAX, FRAME_CALLS_MAX, MESSAGE_BYTES_MAX, RECONNECT_BACKOFF } from "./limits.ts";
import { fromStatus } from "./status.ts";

export interface SessionClientOptions<S extends ServiceContract<object>> {
  readonly channel: Channel;
  /** A service with a method Session. */
  readonly contract: S;
  readonly clock: Clock;
  /** Credentials and the like, sent when the stream is opened. */
  readonly metadata?: Metadata;
  readonly limits?: Partial<SessionClientLimits>;
  /** The stream broke, be it that no call was in flight. */
  readonly onLost?: () => void;
}

export interface SessionClientLimits {
  readonly queueMax: number;
  readonly frameCallsMax: number;
  readonly messageBytesMax: number;
}

/** Time of a call that may grow while the call is under way. */
export interface Patience {
  /** Milliseconds that are left now. */
  readonly leftMs: number;
}

export interface SessionCallOptions {
  readonly timeoutMs: number;
  /** Ends the call when nothing is left of it, at most after `timeoutMs`: the server may take that long. */
  readonly patience?: Patience | undefined;
  readonly signal?: AbortSignal;
  /** What the call is part of, when that is traced. */
  readonly span?: Span | undefined;
}

/** What an operation is given. */
export type CallRequest<S extends ServiceContract<object>, O extends OperationName<S>> = RequestInitOf<S, MethodOfOperation<S, O>>;
/** What an operation answers. */
export type CallResponse<S extends ServiceContract<object>, O extends OperationName<S>> = ResponseOf<S, MethodOfOperation<S, O>>;

interface Call extends OutgoingCall {
  readonly callId: number;
  readonly resolve: (response: object) => void;
  readonly reject: (error: ConcordError) => void;
  /** Undefined when the caller gave no signal. */
  forgetSignal: (() => void) | undefined;
  /** What `abandon` ends together. */
  readonly owner: object | undefined;
  readonly patience: Patience | undefined;
  /** Monotonic milliseconds. The deadline, or before it when `patience` was to end. */
  expiresAtMs: number;
  state: "queued" | "sent" | "settled";
}

interface Begun {
  /** Monotonic milliseconds. */
  readonly deadlineAtMs: number;
  readonly signal?: AbortSignal | undefined;
  readonly owner?: object | undefined;
  readonly span?: Span | undefined;
  readonly patience?: Patience | undefined;
}

/** A stream, from its opening to its end; what belongs to it is gone with it. */
interface Connection {
  readonly stream: MessageStream;
  readonly sent: RotatingMap<CallId, Call>;
  credits: number;
  blocked: boolean;
}

type State =
  | { readonly kind: "idle" }
  | { readonly kind: "waiting"; readonly cancel: () => void }
  | { readonly kind: "connected"; readonly connection: Connection }
  | { readonly kind: "closed" };

const LIMITS_DEFAULT: SessionClientLimits = {
  queueMax: CLIENT_QUEUE_MAX,
  frameCallsMax: FRAME_CALLS_MAX,
  messageBytesMax: MESSAGE_BYTES_MAX,
};

/** Calls of the service `S`: `new SessionClient({ channel, contract: RowsService, clock })`. */
export class SessionClient<S extends ServiceContract<object>> {
  readonly #options: SessionClientOptions<S>;
  readonly #frames: SessionFrames;
  readonly #method: Method;
  readonly #limits: SessionClientLimits;
  readonly #clock: Clock;
  readonly #deadlines: Deadlines;
  #queue: Call[] = [];
  #settledInQueue = 0;
  #state: State = { kind: "idle" };
  #lastCallId = 0;
  #flushScheduled = false;
  /** Connections lost since the last frame. */
  #losses = 0;
  #reconnectAtMs = 0;

  constructor(options: SessionClientOptions<S>) {
    this.#options = options;
    this.#limits = { ...LIMITS_DEFAULT, ...options.limits };
    this.#frames = new SessionFrames(options.contract as ServiceContract);
    this.#method = this.#frames.clientMethod(this.#limits.messageBytesMax);
    this.#clock = options.clock;
    this.#deadlines = new Deadlines(options.clock, (nowMs) => this.#expire(nowMs));
  }

  /**
   * Calls an operation by the name of its oneof case ("read", "logAppend"). Rejects with the server's error; with
   * CONNECTION_LOST when the stream broke, DEADLINE_EXCEEDED after `timeoutMs`, CANCELLED by `signal` or `close`, OVERLOADED when
   * the queue is full, LIMIT_EXCEEDED when the request is too large. A call that never left has `applied: no` (I4).
   */
  call<O extends OperationName<S>>(operation: O, request: CallRequest<S, O>, options: SessionCallOptions): Promise<CallResponse<S, O>> {
    return this.callByName(operation, request, options) as Promise<CallResponse<S, O>>;
  }

  /**
   * `call` with a monotonic time for a deadline; after that time a call is still sent, with the least time-out there is. `abandon` of the same owner
   * ends it.
   */
  callUntil<O extends OperationName<S>>(
    operation: O,
    request: CallRequest<S, O>,
    deadlineAtMs: number,
    owner?: object,
    span?: Span,
  ): Promise<CallResponse<S, O>> {
    return this.#begin(operation, request, { deadlineAtMs, owner, span }) as Promise<CallResponse<S, O>>;
  }

  /** Ends all calls of the owner with the error, as sent or not; the server may still run them. */
  abandon(owner: object, errorOf: (applied: "no" | "unknown") => ConcordError): void {
    const sent = this.#state.kind === "connected" ? [...this.#state.connection.sent.values()] : [];
    for (const call of [...sent, ...this.#queue]) {
      if (call.owner === owner) this.#settle(call, errorOf(call.state === "sent" ? "unknown" : "no"));
    }
  }

  /** `call` for an operation that is known at run time only. */
  callByName(operation: string, request: object, { timeoutMs, signal, span, patience }: SessionCallOptions): Promise<object> {
    if (timeoutMs > 0)
      return this.#begin(operation, request, { deadlineAtMs: this.#clock.monotonicMs() + timeoutMs, signal, span, patience });
    const late = new ConcordError("DEADLINE_EXCEEDED", "no time is left for the call", { applied: "no" });
    return Promise.reject(this.#refusal(signal) ?? late);
  }

  #begin(name: string, request: object, { deadlineAtMs, signal, owner, span: parent, patience }: Begun): Promise<object> {
    const operation = this.#frames.operations.get(name);
    assert(operation !== undefined, `${this.#options.contract.name} has no operation ${name}`);
    return new Promise<object>((resolve, reject) => {
      const refusal = this.#refusal(signal);
      if (refusal !== undefined) {
        reject(refusal);
        return;
      }
      const callId = (this.#lastCallId += 1);
      const span = parent?.child(operation.method, "client");
      const call: Call = {
        callId,
        operation,
        request,
        deadlineAtMs,
        span,
        resolve,
        reject,
        forgetSignal: undefined,
        owner,
        patience,
        expiresAtMs: patience === undefined ? deadlineAtMs : Math.min(deadlineAtMs, this.#clock.monotonicMs() + patience.leftMs),
        state: "queued",
      };
      if (signal !== undefined) this.#watch(call, signal);
      this.#queue.push(call);
      this.#deadlines.add(call.expiresAtMs);
      this.#connect();
      this.#scheduleFlush();
    });
  }

  /** Ends the stream; calls that wait or are in flight fail with CANCELLED. Later calls too. */
  close(): void {
    const state = this.#state;
    if (state.kind === "closed") return;
    this.#state = { kind: "closed" };
    if (state.kind === "waiting") state.cancel();
    if (state.kind === "connected") {
      state.connection.stream.end();
      for (const call of state.connection.sent.values()) this.#settle(call, cancelled(true));
    }
    for (const call of this.#queue) this.#settle(call, cancelled(false));
    this.#dropSettled();
    this.#deadlines.clear();
  }

  #watch(call: Call, signal: AbortSignal): void {
    const onAbort = (): void => this.#settle(call, cancelled(call.state === "sent"));
    signal.addEventListener("abort", onAbort, { once: true });
    call.forgetSignal = () => signal.removeEventListener("abort", onAbort);
  }

  #refusal(signal: AbortSignal | undefined): ConcordError | undefined {
    if (this.#state.kind === "closed" || signal?.aborted === true) return cancelled(false);
    if (this.#queue.length >= this.#limits.queueMax) this.#dropSettled();
    if (this.#queue.length >= this.#limits.queueMax) {
      const metadata = { limit: "queueMax", value: String(this.#limits.queueMax) };
      return new ConcordError("OVERLOADED", `${this.#queue.length} calls wait for ${this.#options.channel.address}`, { metadata });
    }
    return undefined;
  }

  /** Calls that expired or were cancelled in the queue stay there until their turn or until it is full. */
  #dropSettled(): void {
    if (this.#settledInQueue === 0) return;
    this.#queue = this.#queue.filter((call) => call.state === "queued");
    this.#settledInQueue = 0;
  }

  #connect(): void {
    if (this.#state.kind !== "idle") return;
    const delayMs = this.#reconnectAtMs - this.#clock.monotonicMs();
    if (delayMs <= 0) return this.#open();
    const timer = this.#clock.setTimer(delayMs, () => {
      this.#state = { kind: "idle" };
      if (this.#queue.length > 0) this.#open();
    });
    this.#state = { kind: "waiting", cancel: () => timer.cancel() };
  }

  #open(): void {
    const { channel, metadata } = this.#options;
    const stream = channel.stream(this.#method, metadata === undefined ? {} : { metadata });
    const connection: Connection = { stream, sent: new RotatingMap(), credits: 0, blocked: false };
    this.#state = { kind: "connected", connection };
    stream.onMessage((message) => this.#receive(connection, message as IncomingReplies));
    stream.onDrain(() => {
      connection.blocked = false;
      this.#flush();
    });
    stream.onEnd((error) => this.#lose(connection, error));
  }

  #receive(connection: Connection, { replies, credits }: IncomingReplies): void {
    this.#losses = 0;
    connection.credits += credits;
    for (const reply of replies) {
      const call = connection.sent.get(reply.callId);
      if (call !== undefined) this.#answer(connection, call, reply);
    }
    if (this.#queue.length > 0) this.#scheduleFlush();
  }

  #answer(connection: Connection, call: Call, reply: IncomingReply): void {
    connection.sent.delete(call.callId);
    if (reply.kind === "error") return this.#settle(call, errorOf(reply.status));
    if (reply.kind === "response" && reply.operation === call.operation) return this.#settle(call, undefined, reply.response);
    const answered = reply.kind === "response" ? reply.operation.name : "nothing";
    this.#settle(call, new ConcordError("INTERNAL", `${call.operation.name} was answered with ${answered}`));
  }

  #scheduleFlush(): void {
    if (this.#flushScheduled) return;
    this.#flushScheduled = true;
    this.#clock.defer(() => {
      this.#flushScheduled = false;
      this.#flush();
    }, "this");
  }

  #flush(): void {
    while (this.#state.kind === "connected" && this.#queue.length > 0) {
      const { connection } = this.#state;
      if (connection.blocked || connection.credits === 0) return;
      this.#dropSettled();
      const calls = this.#take(Math.min(connection.credits, this.#limits.frameCallsMax));
      if (calls.length > 0) this.#send(connection, calls);
    }
  }

  /** The first calls of the queue: mostly all. */
  #take(max: number): readonly Call[] {
    if (this.#queue.length > max) return this.#queue.splice(0, max);
    const calls = this.#queue;
    this.#queue = [];
    return calls;
  }

  #send(connection: Connection, calls: readonly Call[]): void {
    const nowMs = this.#clock.monotonicMs();
    for (const call of calls) {
      call.state = "sent";
      connection.sent.set(call.callId, call);
    }
    connection.credits -= calls.length;
    const sendFrame = (some: readonly Call[]): boolean => connection.stream.send({ calls: some, nowMs });
    const isFree = sendInFrames(calls, sendFrame, (call, thrown) => this.#unsent(connection, call, thrown));
    if (!isFree) connection.blocked = true;
  }

  /** Its request is too large, or none of the contract. */
  #unsent(connection: Connection, call: Call, thrown: unknown): void {
    connection.sent.delete(call.callId);
    connection.credits += 1;
    this.#settle(call, toConcordError(thrown));
  }

  /** Ends the calls whose time is over; answers the earliest deadline of the others. */
  #expire(nowMs: number): number {
    let nextAtMs = Infinity;
    let hasExpired = false;
    const expireOf = (calls: Iterable<Call>): void => {
      for (const call of calls) {
        if (call.state === "settled") continue;
        if (call.expiresAtMs <= nowMs && call.patience !== undefined)
          call.expiresAtMs = Math.min(call.deadlineAtMs, nowMs + call.patience.leftMs);
        if (call.expiresAtMs <= nowMs) {
          hasExpired = true;
          this.#settle(call, expired(call));
        } else if (call.expiresAtMs < nextAtMs) nextAtMs = call.expiresAtMs;
      }
    };
    if (this.#state.kind === "connected") expireOf(this.#state.connection.sent.values());
    expireOf(this.#queue);
    if (hasExpired) this.#options.channel.probe?.();
    return nextAtMs;
  }

  #lose(connection: Connection, error: Error | undefined): void {
    if (this.#state.kind !== "connected" || this.#state.connection !== connection) return;
    this.#state = { kind: "idle" };
    this.#reconnectAtMs = this.#clock.monotonicMs() + backoffMs(RECONNECT_BACKOFF, this.#losses);
    this.#losses += 1;
    const lost = lostError(this.#options.channel.address, error);
    const neverSent = new ConcordError(lost.code, lost.message, { applied: "no", metadata: lost.metadata, cause: error });
    for (const call of connection.sent.values()) this.#settle(call, lost);
    for (const call of this.#queue) this.#settle(call, neverSent);
    this.#dropSettled();
    this.#options.onLost?.();
  }

  /** The one place where a call gets its result; the first result counts. */
  #settle(call: Call, error: ConcordError | undefined, response?: object): void {
    if (call.state === "settled") return;
    if (call.state === "queued") this.#settledInQueue += 1;
    call.state = "settled";
    call.forgetSignal?.();
    call.span?.end(error?.code);
    if (error !== undefined) return call.reject(error);
    assert(response !== undefined, "a call succeeds with a response");
    call.resolve(response);
  }
}

function expired({ operation, state }: Call): ConcordError {
  const applied = state === "sent" ? "unknown" : "no";
  const where = state === "sent" ? "was answered" : "could be sent";
  return new ConcordError("DEADLINE_EXCEEDED", `the deadline passed before ${operation.name} ${where}`, { applied });
}

function cancelled(sent: boolean): ConcordError {
  return new ConcordError("CANCELLED", "the caller gave up on the call", { applied: sent ? "unknown" : "no" });
}

function errorOf(status: Status): ConcordError {
  return fromStatus(status) ?? new ConcordError("INTERNAL", status.message);
}

/** What a broken stream means for calls that were sent: unknown, unless the server said that it began none of them (I3). */
function lostError(address: string, error: Error | undefined): ConcordError {
  if (error instanceof ConcordError && error.applied === "no") return error;
  const reason = error instanceof ConcordError ? error.code : (error?.message ?? "ended by the server");
  return new ConcordError("CONNECTION_LOST", `the session with ${address} broke: ${reason}`, { metadata: { reason }, cause: error });
}

/**
 * The client's end of a session stream: many calls on one stream, coalesced into frames, under the credits the server grants. Opens
 * the stream at the first call and again at the next call after it broke.
 */
import type { Method, Methods, ServiceContract } from "@concord/protos";
import type { Status } from "@concord/protos/google.rpc";
import { assert, backoffMs, ConcordError, type Channel, type Clock, type MessageStream, type Metadata } from "@concord/runtime";
import type { MethodOfOperation, OperationName, RequestInitOf, ResponseOf } from "./contract-types.ts";
import { Deadlines, type WithDeadline } from "./deadlines.ts";
import { estimateBytes, frameLength, type CallMessage, type ReplyMessage, type ResponseFrame } from "./frames.ts";
import { CLIENT_QUEUE_MAX, FRAME_BYTES_TARGET, FRAME_CALLS_MAX, MESSAGE_BYTES_MAX, RECONNECT_BACKOFF } from "./limits.ts";
import { fromStatus } from "./status.ts";

export interface SessionClientOptions<S extends ServiceContract<object>> {
  readonly channel: Channel;
  /** A service with a method Session. */
  readonly contract: S;
  readonly clock: Clock;
  /** Credentials and the like, sent when the stream is opened. */
  readonly metadata?: Metadata;
  readonly limits?: Partial<SessionClientLimits>;
}

export interface SessionClientLimits {
  readonly queueMax: number;
  readonly frameCallsMax: number;
  readonly messageBytesMax: number;
}

export interface SessionCallOptions {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

/** What an operation is given. */
export type CallRequest<S extends ServiceContract<object>, O extends OperationName<S>> = RequestInitOf<S, MethodOfOperation<S, O>>;
/** What an operation answers. */
export type CallResponse<S extends ServiceContract<object>, O extends OperationName<S>> = ResponseOf<S, MethodOfOperation<S, O>>;

interface Call extends WithDeadline {
  readonly callId: bigint;
  readonly operation: string;
  readonly request: object;
  readonly resolve: (response: object) => void;
  readonly reject: (error: ConcordError) => void;
  /** Undefined when the caller gave no signal. */
  readonly forgetSignal: (() => void) | undefined;
  state: "queued" | "sent" | "settled";
}

/** A stream, from its opening to its end; what belongs to it is gone with it. */
interface Connection {
  readonly stream: MessageStream;
  readonly sent: Map<bigint, Call>;
  credits: number;
  blocked: boolean;
}

type State =
  | { readonly kind: "idle" }
  | { readonly kind: "waiting"; readonly cancel: () => void }
  | { readonly kind: "connected"; readonly connection: Connection }
  | { readonly kind: "closed" };

/** call_id, timeout_ms and lengths may be larger in the real frame than where its size was tried. */
const FRAME_OVERHEAD_BYTES = 64;

const LIMITS_DEFAULT: SessionClientLimits = {
  queueMax: CLIENT_QUEUE_MAX,
  frameCallsMax: FRAME_CALLS_MAX,
  messageBytesMax: MESSAGE_BYTES_MAX,
};

/** Calls of the service `S`: `new SessionClient({ channel, contract: RowsService, clock })`. */
export class SessionClient<S extends ServiceContract<object>> {
  readonly #options: SessionClientOptions<S>;
  readonly #method: Method;
  readonly #limits: SessionClientLimits;
  readonly #clock: Clock;
  readonly #deadlines: Deadlines<Call>;
  #queue: Call[] = [];
  #settledInQueue = 0;
  #state: State = { kind: "idle" };
  #lastCallId = 0n;
  #flushScheduled = false;
  /** Connections lost since the last frame. */
  #losses = 0;
  #reconnectAtMs = 0;

  constructor(options: SessionClientOptions<S>) {
    const session = (options.contract.methods as Methods)["Session"];
    assert(session !== undefined, `${options.contract.name} has no method Session`);
    this.#options = options;
    this.#method = session;
    this.#limits = { ...LIMITS_DEFAULT, ...options.limits };
    this.#clock = options.clock;
    this.#deadlines = new Deadlines(options.clock, (call) => this.#expire(call));
  }

  /**
   * Calls an operation by the name of its oneof case ("read", "logAppend"). Rejects with the server's error; with
   * CONNECTION_LOST when the stream broke, DEADLINE_EXCEEDED after `timeoutMs`, CANCELLED by `signal` or `close`, OVERLOADED when
   * the queue is full, LIMIT_EXCEEDED when the request is too large. A call that never left has `applied: no` (I4).
   */
  call<O extends OperationName<S>>(operation: O, request: CallRequest<S, O>, options: SessionCallOptions): Promise<CallResponse<S, O>> {
    return this.callByName(operation, request, options) as Promise<CallResponse<S, O>>;
  }

  /** `call` for an operation that is known at run time only. */
  callByName(operation: string, request: object, options: SessionCallOptions): Promise<object> {
    return new Promise<object>((resolve, reject) => {
      const refusal = this.#refusal(operation, request, options);
      if (refusal !== undefined) {
        reject(refusal);
        return;
      }
      this.#lastCallId += 1n;
      const { signal } = options;
      const onAbort = (): void => this.#settle(call, cancelled(call.state === "sent"));
      const call: Call = {
        callId: this.#lastCallId,
        operation,
        request,
        deadlineAtMs: this.#clock.monotonicMs() + options.timeoutMs,
        resolve,
        reject,
        forgetSignal: signal === undefined ? undefined : () => signal.removeEventListener("abort", onAbort),
        state: "queued",
      };
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#queue.push(call);
      this.#deadlines.add(call);
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

  #refusal(operation: string, request: object, options: SessionCallOptions): ConcordError | undefined {
    if (this.#state.kind === "closed" || options.signal?.aborted === true) return cancelled(false);
    if (!(options.timeoutMs > 0)) return new ConcordError("DEADLINE_EXCEEDED", "no time is left for the call", { applied: "no" });
    if (this.#queue.length >= this.#limits.queueMax) this.#dropSettled();
    if (this.#queue.length >= this.#limits.queueMax) {
      const metadata = { limit: "queueMax", value: String(this.#limits.queueMax) };
      return new ConcordError("OVERLOADED", `${this.#queue.length} calls wait for ${this.#options.channel.address}`, { metadata });
    }
    // Below a third of the limit the estimate alone proves that the request fits.
    return estimateBytes(request) * 3 > this.#limits.messageBytesMax ? this.#sizeRefusal(operation, request) : undefined;
  }

  /** Calls that expired or were cancelled in the queue stay there until their turn or until it is full. */
  #dropSettled(): void {
    if (this.#settledInQueue === 0) return;
    this.#queue = this.#queue.filter((call) => call.state === "queued");
    this.#settledInQueue = 0;
  }

  #sizeRefusal(operation: string, request: object): ConcordError | undefined {
    let bytes: number;
    try {
      bytes = this.#method.encodeRequest({ calls: [{ callId: this.#lastCallId, timeoutMs: 1, [operation]: request }] }).length;
    } catch {
      return malformed(operation);
    }
    const limit = this.#limits.messageBytesMax;
    if (bytes + FRAME_OVERHEAD_BYTES <= limit) return undefined;
    const metadata = { limit: "messageBytesMax", value: String(limit) };
    return new ConcordError("LIMIT_EXCEEDED", `the request has ${bytes} bytes, at most ${limit} are allowed`, { metadata });
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
    const connection: Connection = { stream, sent: new Map(), credits: 0, blocked: false };
    this.#state = { kind: "connected", connection };
    stream.onMessage((message) => this.#receive(connection, message as ResponseFrame));
    stream.onDrain(() => {
      connection.blocked = false;
      this.#flush();
    });
    stream.onEnd((error) => this.#lose(connection, error));
  }

  #receive(connection: Connection, frame: ResponseFrame): void {
    this.#losses = 0;
    connection.credits += frame.credits;
    for (const reply of frame.replies) {
      const call = connection.sent.get(reply.callId);
      if (call !== undefined) this.#answer(connection, call, reply);
    }
    if (this.#queue.length > 0) this.#scheduleFlush();
  }

  #answer(connection: Connection, call: Call, reply: ReplyMessage): void {
    connection.sent.delete(call.callId);
    if (reply.outcome === call.operation) this.#settle(call, undefined, reply[call.operation] as object);
    else if (reply.outcome === "error") this.#settle(call, errorOf(reply["error"] as Status));
    else this.#settle(call, new ConcordError("INTERNAL", `${call.operation} was answered with ${reply.outcome ?? "nothing"}`));
  }

  #scheduleFlush(): void {
    if (this.#flushScheduled) return;
    this.#flushScheduled = true;
    this.#clock.defer(() => {
      this.#flushScheduled = false;
      this.#flush();
    });
  }

  #flush(): void {
    while (this.#state.kind === "connected" && this.#queue.length > 0) {
      const { connection } = this.#state;
      if (connection.blocked || connection.credits === 0) return;
      const length = frameLength(this.#queue, connection.credits, {
        itemsMax: this.#limits.frameCallsMax,
        bytesTarget: FRAME_BYTES_TARGET,
      });
      const taken = this.#queue.splice(0, length);
      const calls = taken.filter((call) => call.state === "queued");
      this.#settledInQueue -= taken.length - calls.length;
      if (calls.length > 0) this.#sendFrame(connection, calls);
    }
  }

  #sendFrame(connection: Connection, calls: readonly Call[]): void {
    const nowMs = this.#clock.monotonicMs();
    for (const call of calls) {
      call.state = "sent";
      connection.sent.set(call.callId, call);
    }
    connection.credits -= calls.length;
    const accepted = this.#trySend(
      connection,
      calls.map((call) => callMessage(call, nowMs)),
    );
    if (accepted === undefined) {
      connection.credits += calls.length;
      for (const call of calls) this.#sendAlone(connection, call, nowMs);
    } else if (!accepted) {
      connection.blocked = true;
    }
  }

  /** After a frame that could not be encoded: one by one, so that a caller's mistake is only that caller's. */
  #sendAlone(connection: Connection, call: Call, nowMs: number): void {
    const accepted = this.#trySend(connection, [callMessage(call, nowMs)]);
    if (accepted === undefined) {
      connection.sent.delete(call.callId);
      this.#settle(call, malformed(call.operation));
      return;
    }
    connection.credits -= 1;
    if (!accepted) connection.blocked = true;
  }

  /** Undefined: the frame cannot be encoded; nothing was sent. */
  #trySend(connection: Connection, calls: readonly CallMessage[]): boolean | undefined {
    try {
      return connection.stream.send({ calls, credits: 0 });
    } catch {
      return undefined;
    }
  }

  #expire(call: Call): void {
    const applied = call.state === "sent" ? "unknown" : "no";
    const where = call.state === "sent" ? "was answered" : "could be sent";
    this.#settle(call, new ConcordError("DEADLINE_EXCEEDED", `the deadline passed before ${call.operation} ${where}`, { applied }));
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
  }

  /** The one place where a call gets its result; the first result counts. */
  #settle(call: Call, error: ConcordError | undefined, response?: object): void {
    if (call.state === "settled") return;
    if (call.state === "queued") this.#settledInQueue += 1;
    call.state = "settled";
    call.forgetSignal?.();
    this.#deadlines.delete(call);
    if (error !== undefined) return call.reject(error);
    assert(response !== undefined, "a call succeeds with a response");
    call.resolve(response);
  }
}

function callMessage(call: Call, nowMs: number): CallMessage {
  return { callId: call.callId, timeoutMs: Math.max(1, Math.ceil(call.deadlineAtMs - nowMs)), [call.operation]: call.request };
}

function malformed(operation: string): ConcordError {
  return new ConcordError("MALFORMED_REQUEST", `the request of ${operation} cannot be encoded`);
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

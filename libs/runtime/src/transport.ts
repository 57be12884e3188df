import type { OutputBudget } from "./output-budget.ts";
import type { Span } from "./trace.ts";

/**
 * The network as an argument. `rpc` implements it over gRPC, `simulation` over a simulated network with the same encoded bytes.
 * Messages are the plain objects of the contracts (int64 as bigint, enums as strings, oneofs named).
 */
export interface MethodDescriptor {
  /** "/concord.storage.v1.RowsService/Read" */
  readonly path: string;
  readonly requestStream: boolean;
  readonly responseStream: boolean;
  /** With `bytesMax`: throws MessageTooLarge of the contracts instead of encoding more. */
  encodeRequest(message: object, bytesMax?: number): Uint8Array;
  decodeRequest(bytes: Uint8Array): object;
  encodeResponse(message: object, bytesMax?: number): Uint8Array;
  decodeResponse(bytes: Uint8Array): object;
}

export type Metadata = Readonly<Record<string, string>>;

export interface CallOptions {
  /** Relative time budget of the call. Always given: a call without a deadline is a leak. */
  readonly timeoutMs: number;
  readonly metadata?: Metadata;
  readonly signal?: AbortSignal;
  /** What the call is part of, when that is traced. */
  readonly span?: Span | undefined;
}

export interface StreamOptions {
  readonly metadata?: Metadata;
}

/** One direction-agnostic end of a bidirectional stream. Messages arrive in order; `onEnd` is called exactly once. */
export interface MessageStream {
  /** False: the transport's buffer is full; wait for `onDrain`. The message was accepted all the same. */
  send(message: object): boolean;
  /** Bytes of messages that have not left the process; undefined where the transport keeps none. */
  readonly unsentBytes?: number;
  onMessage(listener: (message: object) => void): void;
  onDrain(listener: () => void): void;
  /** `error` is undefined when the other side ended it in good order. */
  onEnd(listener: (error: Error | undefined) => void): void;
  /**
   * Ends this side; with an error the other side sees that error (server) or a cancel (client). A server that ends with OVERLOADED drops what
   * its client has not taken.
   */
  end(error?: Error): void;
}

/** A connection to one address; reconnects by itself. */
export interface Channel {
  readonly address: string;
  unary(method: MethodDescriptor, request: object, options: CallOptions): Promise<object>;
  stream(method: MethodDescriptor, options: StreamOptions): MessageStream;
  /** Ends a connection whose other side fell silent, with its calls: called when a call had no answer in its time. Absent where none can. */
  probe?(): void;
  /** Ends connection attempts at once; calls in flight within a second. */
  close(): void;
}

/** A call that may begin. */
export interface Admission {
  /** Whose shares it draws from: a caller with a name, or the address the call comes from. */
  readonly owner: string;
  /** The call is over. A handler that has begun keeps its place until it settles. */
  abandon(): void;
}

export interface CallContext {
  /** Of `admit`, when the transport called it. */
  readonly admission?: Admission | undefined;
  /** Monotonic milliseconds of the server's own clock. */
  readonly deadlineAtMs: number;
  readonly metadata: Metadata;
  readonly peer: string;
  /** Aborted when the caller went away or the deadline passed. */
  readonly signal: AbortSignal;
  /** The process's memory for large messages on their way out; undefined where the transport keeps no messages. */
  readonly output?: OutputBudget;
}

interface AdmittingMethod {
  readonly method: MethodDescriptor;
  /**
   * Who calls, and whether there is a place for the call: a transport that has the metadata before any message calls it then. Throws why the call
   * is refused. A transport that does not call it leaves all that to `handle`.
   */
  readonly admit?: (context: CallContext) => Admission;
}

export type ServedMethod = AdmittingMethod &
  (
    | { readonly kind: "unary"; readonly handle: (request: object, context: CallContext) => Promise<object> }
    | { readonly kind: "stream"; readonly handle: (stream: MessageStream, context: CallContext) => void }
  );

export interface Listener {
  /** The bound address, "127.0.0.1:40123". */
  readonly address: string;
  /** Stops accepting, ends idle streams with UNAVAILABLE, waits for calls in flight at most `graceMs`, then closes. Never hangs. */
  drain(graceMs: number): Promise<void>;
}

export interface Transport {
  serve(address: string, methods: readonly ServedMethod[]): Promise<Listener>;
  connect(address: string): Channel;
}

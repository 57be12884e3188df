/** What stands before the handlers of a gRPC server: a call is admitted by its metadata, and its messages by their sizes, before grpc-js keeps a byte. */
import { constants, type Http2Session, type ServerHttp2Stream } from "node:http2";
import type { Metadata as GrpcMetadata, ServerInterceptor, ServerInterceptingCall } from "@grpc/grpc-js";
import {
  addressOwner,
  assert,
  ConcordError,
  RotatingMap,
  type Admission,
  type CallContext,
  type Clock,
  type Metadata,
  type Metrics,
  type OutputBudget,
  type ServedMethod,
} from "@concord/runtime";
import { Deadlines } from "./deadlines.ts";
import { ACCEPT_ENCODING_KEY, IDENTITY, toServiceError } from "./grpc-errors.ts";
import type { InputBudget } from "./input-budget.ts";
import { DEFAULT_TIMEOUT_MS, REFUSED_LINGER_MS, REQUEST_COMPLETE_MS_MAX, REQUEST_COUNTED_BYTES, TIMEOUT_MS_MAX } from "./limits.ts";
import { MessageFrames, type FrameListener } from "./message-frames.ts";
import { hostOf, type ShareOwner } from "./places.ts";
import { REQUEST_ID_KEY, requestIdOf } from "./request-id.ts";

export interface EdgeOptions {
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly input: InputBudget;
  readonly output: OutputBudget;
  readonly methods: readonly ServedMethod[];
  readonly messageBytesMax: number;
  readonly defaultTimeoutMs?: number | undefined;
  /** Names a call whose caller has not. */
  readonly newRequestId: () => string;
  /** The connection has its first call. */
  readonly onCall: (peer: string) => void;
}

/** The next call of the chain. Its stream and encoding are fields of grpc-js's own call. */
type NextCall = Parameters<ServerInterceptor>[1];
type NextListener = Parameters<NextCall["start"]>[0];

export class Edge {
  readonly options: EdgeOptions;
  readonly #methods: ReadonlyMap<string, ServedMethod>;
  /** Peers by session: reading the address of a socket is slow. */
  readonly #peers = new WeakMap<Http2Session, string>();
  /** Calls that wait for the rest of a message, the longest first. */
  readonly #partial = new RotatingMap<EdgeCall, EdgeCall>();
  readonly #deadlines: Deadlines;

  constructor(options: EdgeOptions) {
    this.options = options;
    this.#methods = new Map(options.methods.map((served) => [served.method.path, served]));
    this.#deadlines = new Deadlines(options.clock, (nowMs) => this.#expire(nowMs));
  }

  readonly interceptor: ServerInterceptor = ({ path }, next) => {
    const served = this.#methods.get(path);
    assert(served !== undefined, "grpc-js calls methods that were registered");
    // It does what grpc-js asks of the class that the type names.
    return new EdgeCall(this, served, next) as unknown as ServerInterceptingCall;
  };

  peerOf(stream: ServerHttp2Stream, next: NextCall): string {
    const { session } = stream;
    const known = session === undefined ? undefined : this.#peers.get(session);
    if (known !== undefined) return known;
    const peer = next.getPeer();
    if (session !== undefined) this.#peers.set(session, peer);
    this.options.onCall(peer);
    return peer;
  }

  waitFor(call: EdgeCall): void {
    if (this.#partial.has(call)) return;
    this.#partial.set(call, call);
    this.#deadlines.add(call.completeAtMs);
  }

  waitEnds(call: EdgeCall): void {
    this.#partial.delete(call);
  }

  close(): void {
    this.#deadlines.clear();
  }

  #expire(nowMs: number): number {
    const late: EdgeCall[] = [];
    let nextAtMs = Infinity;
    for (const call of this.#partial.values()) {
      if (call.completeAtMs > nowMs) {
        nextAtMs = call.completeAtMs;
        break;
      }
      late.push(call);
    }
    for (const call of late) call.tooSlow();
    return nextAtMs;
  }
}

/** The call of a handler of grpc-js. */
export function edgeCallOf(call: object): EdgeCall {
  const { call: edgeCall } = call as { readonly call: unknown };
  assert(edgeCall instanceof EdgeCall, "a call of grpc-js has the call of its last interceptor");
  return edgeCall;
}

/** One call, from its headers to its end; also its context. */
export class EdgeCall implements NextCall, CallContext, FrameListener {
  readonly peer: string;
  /** Of HTTP/2. */
  readonly stream: ServerHttp2Stream;
  admission: Admission | undefined;
  /** When the message that has begun must be complete. */
  completeAtMs = Infinity;
  readonly #edge: Edge;
  readonly #served: ServedMethod;
  readonly #next: NextCall;
  readonly #frames: MessageFrames;
  #owner: ShareOwner | undefined;
  #grpcMetadata: GrpcMetadata | undefined;
  #metadata: Metadata | undefined;
  #deadlineAtMs: number | undefined;
  #controller: AbortController | undefined;
  #heldBytes = 0;
  #isOver = false;

  constructor(edge: Edge, served: ServedMethod, next: NextCall) {
    const { stream } = next as NextCall & { readonly stream?: ServerHttp2Stream };
    assert(stream !== undefined, "a call of grpc-js has the stream of HTTP/2 that it is served on");
    this.stream = stream;
    this.#edge = edge;
    this.#served = served;
    this.#next = next;
    this.#frames = new MessageFrames(this);
    this.peer = edge.peerOf(stream, next);
    // Before grpc-js's own listener: what is refused is not kept.
    stream.prependListener("data", (chunk: Uint8Array) => this.#read(chunk));
  }

  start(listener: NextListener): void {
    this.#next.start({
      onReceiveMetadata: (metadata) => {
        this.#grpcMetadata = metadata;
        if (this.#isAdmitted()) listener.onReceiveMetadata(metadata);
      },
      onReceiveMessage: (message) => {
        listener.onReceiveMessage(message);
        if (this.#served.method.requestStream) this.#giveBack();
      },
      onReceiveHalfClose: () => {
        if (!this.#served.method.requestStream) this.#edge.waitEnds(this);
        listener.onReceiveHalfClose();
      },
      onCancel: () => {
        this.#over();
        listener.onCancel();
      },
    });
  }

  #isAdmitted(): boolean {
    const { incomingEncoding = IDENTITY } = this.#next as { readonly incomingEncoding?: string };
    if (incomingEncoding !== IDENTITY) return this.#refuse(notCompressed(incomingEncoding), "encoding");
    try {
      this.admission = this.#served.admit?.(this);
    } catch (thrown) {
      return this.#refuse(thrown, undefined);
    }
    this.#owner = { name: this.admission?.owner ?? addressOwner(hostOf(this.peer)), connection: this.peer };
    if (!this.#served.method.requestStream) this.#wait();
    return true;
  }

  #read(chunk: Uint8Array): void {
    if (this.#isOver) return;
    this.#frames.read(chunk);
    if (this.#frames.isPartial) this.#wait();
  }

  onBegin(bytes: number, isCompressed: boolean): boolean {
    const { messageBytesMax, input } = this.#edge.options;
    if (isCompressed) return this.#refuse(notCompressed("compressed"), "encoding");
    if (bytes > messageBytesMax) return this.#refuse(this.#tooLarge(bytes), "messageBytesMax");
    if (bytes < REQUEST_COUNTED_BYTES) return true;
    assert(this.#owner !== undefined, "a call is admitted before a message is read");
    if (!input.take(this.#owner, bytes)) return this.#refuse(input.full(), "inputBufferBytes");
    this.#heldBytes += bytes;
    return true;
  }

  onComplete(): void {
    if (this.#served.method.requestStream) this.#edge.waitEnds(this);
  }

  tooSlow(): void {
    const metadata = { limit: "REQUEST_COMPLETE_MS_MAX", value: String(REQUEST_COMPLETE_MS_MAX) };
    const text = `the request was not complete after ${REQUEST_COMPLETE_MS_MAX} ms: send it faster, or less at once`;
    this.#refuse(new ConcordError("LIMIT_EXCEEDED", text, { metadata }), "REQUEST_COMPLETE_MS_MAX");
  }

  #wait(): void {
    this.completeAtMs = this.#edge.options.clock.monotonicMs() + REQUEST_COMPLETE_MS_MAX;
    this.#edge.waitFor(this);
  }

  #tooLarge(bytes: number): ConcordError {
    const { messageBytesMax } = this.#edge.options;
    const metadata = { limit: "messageBytesMax", value: String(messageBytesMax) };
    return new ConcordError("LIMIT_EXCEEDED", `the request has ${bytes} bytes, ${messageBytesMax} are allowed`, { metadata });
  }

  /** Ends the call. Calls of a stream that came before may be running, so nothing is said about them. */
  #refuse(thrown: unknown, reason: string | undefined): false {
    if (reason !== undefined) this.#edge.options.metrics.count("rpc_server_refused_total", 1, { reason });
    const isStream = this.#served.method.requestStream && this.admission !== undefined;
    const error = thrown instanceof ConcordError && isStream ? unknownOutcome(thrown) : thrown;
    const isUnanswered = !this.stream.headersSent;
    this.#over();
    this.#next.sendStatus(toServiceError(error, this.requestId));
    // The client may send on, and its stream would stay; a client that sends at full speed needs the time to see the status.
    if (isUnanswered) {
      const { stream } = this;
      const timer = this.#edge.options.clock.setTimer(REFUSED_LINGER_MS, () => stream.close(constants.NGHTTP2_NO_ERROR));
      stream.once("close", () => timer.cancel());
    }
    return false;
  }

  #over(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#edge.waitEnds(this);
    this.#giveBack();
    this.admission?.abandon();
    this.#controller?.abort();
  }

  #giveBack(): void {
    if (this.#heldBytes === 0) return;
    this.#edge.options.input.giveBack(this.#owner!, this.#heldBytes);
    this.#heldBytes = 0;
  }

  get output(): OutputBudget {
    return this.#edge.options.output;
  }

  get requestId(): string {
    return this.metadata[REQUEST_ID_KEY]!;
  }

  /** With the name of the call. */
  get metadata(): Metadata {
    this.#metadata ??= this.#named();
    return this.#metadata;
  }

  #named(): Metadata {
    const metadata: Record<string, string> = {};
    for (const [key, value] of Object.entries(this.#grpcMetadata?.getMap() ?? {})) if (typeof value === "string") metadata[key] = value;
    metadata[REQUEST_ID_KEY] = requestIdOf(metadata) ?? this.#edge.options.newRequestId();
    return metadata;
  }

  get deadlineAtMs(): number {
    this.#deadlineAtMs ??= this.#served.kind === "unary" ? this.#deadlineFromNow() : Infinity;
    return this.#deadlineAtMs;
  }

  /** grpc-js gives the deadline in wall time; the server keeps it as monotonic time. */
  #deadlineFromNow(): number {
    const { clock, metrics, defaultTimeoutMs = DEFAULT_TIMEOUT_MS } = this.#edge.options;
    const deadline = this.#next.getDeadline();
    let remainingMs = (deadline instanceof Date ? deadline.getTime() : deadline) - clock.nowMs();
    if (remainingMs === Infinity) {
      metrics.count("rpc_server_deadline_missing_total");
      remainingMs = defaultTimeoutMs;
    }
    return clock.monotonicMs() + Math.min(remainingMs, TIMEOUT_MS_MAX);
  }

  /** Aborted when the client goes away, when the deadline passes, and when the call has been answered. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#isOver) this.#controller.abort();
    }
    return this.#controller.signal;
  }

  sendMetadata(metadata: GrpcMetadata): void {
    metadata.set(ACCEPT_ENCODING_KEY, IDENTITY);
    this.#next.sendMetadata(metadata);
  }

  sendMessage(message: unknown, callback: () => void): void {
    this.#next.sendMessage(message, callback);
  }

  sendStatus(status: Parameters<NextCall["sendStatus"]>[0]): void {
    this.#next.sendStatus(status);
  }

  startRead(): void {
    this.#next.startRead();
  }

  getPeer(): string {
    return this.peer;
  }

  getDeadline(): ReturnType<NextCall["getDeadline"]> {
    return this.#next.getDeadline();
  }

  getHost(): string {
    return this.#next.getHost();
  }

  getAuthContext(): ReturnType<NextCall["getAuthContext"]> {
    return this.#next.getAuthContext();
  }

  getConnectionInfo(): ReturnType<NextCall["getConnectionInfo"]> {
    return this.#next.getConnectionInfo();
  }

  getMetricsRecorder(): ReturnType<NextCall["getMetricsRecorder"]> {
    return this.#next.getMetricsRecorder();
  }
}

function unknownOutcome({ code, message, metadata }: ConcordError): ConcordError {
  return new ConcordError(code, message, { applied: "unknown", metadata });
}

function notCompressed(encoding: string): ConcordError {
  return new ConcordError("UNIMPLEMENTED", `the request is sent with grpc-encoding ${encoding}; send it with ${IDENTITY}`, {
    metadata: { field: "grpc-encoding" },
  });
}

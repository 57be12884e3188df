import {
  Metadata as GrpcMetadata,
  Server,
  type handleBidiStreamingCall,
  type handleServerStreamingCall,
  type handleUnaryCall,
  type sendUnaryData,
  type ServerDuplexStream,
  type ServerUnaryCall,
  type ServerWritableStream,
} from "@grpc/grpc-js";
import {
  CONNECTIONS_MAX,
  ConcordError,
  runningTimer,
  type Clock,
  type Listener,
  type MessageStream,
  type MethodDescriptor,
  type OutputBudget,
  type ServedMethod,
} from "@concord/runtime";
import { Edge, edgeCallOf, type EdgeCall } from "./grpc-edge.ts";
import { toServiceError } from "./grpc-errors.ts";
import { GrpcListener } from "./grpc-listener.ts";
import { messageBytesMax, serverOptions, type GrpcCredentials, type GrpcTransportOptions } from "./grpc-options.ts";
import { resetUnread } from "./grpc-reset.ts";
import type { InputBudget } from "./input-budget.ts";
import { ANSWER_COUNTED_BYTES, STREAM_UNSENT_BYTES_MAX } from "./limits.ts";
import { decodeRequest, encodeResponse, endingError } from "./messages.ts";
import { REQUEST_ID_KEY } from "./request-id.ts";

/** While draining, a stream on which nothing moved for this long is idle and is ended. */
const DRAIN_QUIET_MS = 100;
const DRAIN_POLL_MS = 25;
/** After the grace: so long the last statuses may take to leave before connections are cut. As the grace, without time in which the process does not run. */
const DRAIN_FLUSH_MS = 500;
/** Without open streams, too: clients take notice of the end of their connections. */
const FLUSH_POLLS_MIN = 2;

type Bytes = Uint8Array;

export interface GrpcServerOptions extends GrpcTransportOptions {
  /** One for all servers of the process, as `output`. */
  readonly input: InputBudget;
  readonly output: OutputBudget;
  readonly credentials: GrpcCredentials;
  /** Names a call whose caller has not. */
  readonly newRequestId: () => string;
}

type StreamCall = ServerDuplexStream<Bytes, Bytes> | ServerWritableStream<Bytes, Bytes>;

const asBuffer = (bytes: Bytes): Buffer => (Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
/** grpc-js moves bytes only: decoding is ours, so that what cannot be decoded gets an error of ours. */
const asIs = (bytes: Buffer): Bytes => bytes;

/** Binds and serves. Rejects when the address cannot be bound. */
export async function serveGrpc(address: string, methods: readonly ServedMethod[], options: GrpcServerOptions): Promise<Listener> {
  const { clock, metrics, connectionsMax = CONNECTIONS_MAX.grpc } = options;
  const edge = new Edge({ ...options, methods, messageBytesMax: messageBytesMax(options), onCall: (peer) => listener.called(peer) });
  const server = new Server({ ...serverOptions(options), interceptors: [edge.interceptor] });
  const streams = new Set<ServerStream>();
  for (const served of methods) register(server, served, streams, options);
  const injector = server.createConnectionInjector(options.credentials.server);
  const listener = new GrpcListener({ clock, metrics, connectionsMax, onConnection: (socket) => injector.injectConnection(socket) });
  const port = await listener.listen(address);
  return {
    address: address.replace(/:\d+$/, `:${port}`),
    drain: async (graceMs) => {
      // grpc-js takes a server whose connections were injected for closed before they are.
      const closed = Promise.all([listener.close(), new Promise<void>((resolve) => server.tryShutdown(() => resolve()))]);
      await drain(closed, streams, clock, graceMs);
      // Sockets first: a client takes a call on a lost connection for UNAVAILABLE, one that grpc-js cuts for INTERNAL.
      listener.destroy();
      server.forceShutdown();
      edge.close();
    },
  };
}

function register(server: Server, served: ServedMethod, streams: Set<ServerStream>, options: GrpcServerOptions): void {
  const { path, requestStream } = served.method;
  if (served.kind === "unary") {
    const handle: handleUnaryCall<Bytes, Bytes> = (call, callback) => answerUnary(served, call, callback, options);
    server.register(path, handle, asBuffer, asIs, "unary");
    return;
  }
  const begin = (call: StreamCall): void => {
    const context = edgeCallOf(call);
    const stream = new ServerStream(call, served.method, options, context.requestId);
    streams.add(stream);
    // Of HTTP/2: then the status has left.
    context.stream.once("close", () => streams.delete(stream));
    try {
      served.handle(stream, context);
    } catch (thrown) {
      stream.end(thrown instanceof Error ? thrown : new Error(String(thrown)));
    }
  };
  if (requestStream) server.register(path, begin as handleBidiStreamingCall<Bytes, Bytes>, asBuffer, asIs, "bidi");
  else server.register(path, begin as handleServerStreamingCall<Bytes, Bytes>, asBuffer, asIs, "serverStream");
}

type UnaryServed = ServedMethod & { readonly kind: "unary" };

function answerUnary(
  served: UnaryServed,
  call: ServerUnaryCall<Bytes, Bytes>,
  callback: sendUnaryData<Bytes>,
  options: GrpcServerOptions,
): void {
  const context = edgeCallOf(call);
  const fail = (thrown: unknown): void => callback(toServiceError(thrown, context.requestId));
  try {
    const request = decodeRequest(served.method, call.request, messageBytesMax(options));
    served
      .handle(request, context)
      .then((response) => {
        const bytes = encodeResponse(served.method, response, messageBytesMax(options));
        sendRequestId(call, context.requestId);
        return bytes.length > ANSWER_COUNTED_BYTES ? answerCounted(bytes, call, callback, context) : callback(null, bytes);
      })
      .catch(fail);
  } catch (thrown) {
    fail(thrown);
  }
}

/** With the first bytes of an answer. Before a status it would end the retries of generic clients: a status carries the id itself. */
function sendRequestId(call: Pick<StreamCall, "sendMetadata">, requestId: string): void {
  const headers = new GrpcMetadata();
  headers.set(REQUEST_ID_KEY, requestId);
  call.sendMetadata(headers);
}

/** A large answer leaves when there is memory for it, and takes it until it has left or its call is over. */
async function answerCounted(
  bytes: Bytes,
  call: ServerUnaryCall<Bytes, Bytes>,
  callback: sendUnaryData<Bytes>,
  { output, signal }: EdgeCall,
): Promise<void> {
  const share = await output.takeMade(bytes.length, signal);
  // The call is over: its deadline has passed, or its client is gone.
  if (share === undefined) return;
  signal.addEventListener("abort", () => share.release(), { once: true });
  share.unread(() => resetUnread(call));
  callback(null, bytes);
}

class ServerStream implements MessageStream {
  readonly #call: StreamCall;
  readonly #method: MethodDescriptor;
  readonly #options: GrpcServerOptions;
  readonly #requestId: string;
  #isNamed = false;
  readonly #endListeners: ((error: Error | undefined) => void)[] = [];
  /** Monotonic time of the last message in either direction. */
  #activeAtMs: number;
  /** Of messages that grpc-js has not handed to the connection: its own limit counts messages, not bytes. */
  #unsentBytes = 0;
  #isFull = false;
  #onDrain: () => void = () => undefined;
  #remoteEnded = false;
  #locallyEnded = false;

  constructor(call: StreamCall, method: MethodDescriptor, options: GrpcServerOptions, requestId: string) {
    this.#requestId = requestId;
    this.#call = call;
    this.#method = method;
    this.#options = options;
    this.#activeAtMs = options.clock.monotonicMs();
    call.once("cancelled", () => this.#remoteEnd(new ConcordError("CANCELLED", "the client went away")));
    call.once("end", () => this.#remoteEnd(undefined));
  }

  get quietForMs(): number {
    return this.#options.clock.monotonicMs() - this.#activeAtMs;
  }

  get unsentBytes(): number {
    return this.#unsentBytes;
  }

  send(message: object): boolean {
    const bytes = encodeResponse(this.#method, message, messageBytesMax(this.#options));
    if (this.#locallyEnded || this.#call.cancelled) return true;
    this.#activeAtMs = this.#options.clock.monotonicMs();
    this.#name();
    const { length } = bytes;
    this.#unsentBytes += length;
    this.#call.write(bytes, () => this.#sent(length));
    this.#isFull = this.#unsentBytes > STREAM_UNSENT_BYTES_MAX;
    return !this.#isFull;
  }

  #name(): void {
    if (this.#isNamed) return;
    this.#isNamed = true;
    sendRequestId(this.#call, this.#requestId);
  }

  #sent(bytes: number): void {
    this.#unsentBytes -= bytes;
    if (!this.#isFull || this.#unsentBytes > STREAM_UNSENT_BYTES_MAX) return;
    this.#isFull = false;
    this.#onDrain();
  }

  onMessage(listener: (message: object) => void): void {
    const receive = (bytes: Bytes): void => {
      this.#activeAtMs = this.#options.clock.monotonicMs();
      let message: object;
      try {
        message = decodeRequest(this.#method, bytes, messageBytesMax(this.#options));
      } catch (thrown) {
        this.end(endingError(thrown));
        return;
      }
      if (!this.#locallyEnded) listener(message);
    };
    if ("request" in this.#call) receive(this.#call.request);
    else this.#call.on("data", receive);
  }

  onDrain(listener: () => void): void {
    this.#onDrain = listener;
  }

  onEnd(listener: (error: Error | undefined) => void): void {
    this.#endListeners.push(listener);
  }

  end(error?: Error): void {
    if (this.#locallyEnded) return;
    this.#locallyEnded = true;
    if (error === undefined) this.#endWell();
    else if (this.#isFull && error instanceof ConcordError && error.code === "OVERLOADED") resetUnread(this.#call);
    else this.#call.emit("error", toServiceError(error, this.#requestId));
    this.#remoteEnd(error);
  }

  #endWell(): void {
    this.#name();
    this.#call.end();
  }

  /** Calls the listeners once, whichever side ended it first. */
  #remoteEnd(error: Error | undefined): void {
    if (this.#remoteEnded) return;
    this.#remoteEnded = true;
    for (const listener of this.#endListeners) listener(error);
  }
}

async function drain(closed: Promise<unknown>, streams: ReadonlySet<ServerStream>, clock: Clock, graceMs: number): Promise<void> {
  const grace = runningTimeout(clock, graceMs);
  while (!grace.isOver && !(await within(clock, DRAIN_POLL_MS, closed)))
    for (const stream of streams) if (stream.quietForMs >= DRAIN_QUIET_MS) stream.end(drainingError());
  grace.cancel();
  for (const stream of streams) stream.end(drainingError());
  const flush = runningTimeout(clock, DRAIN_FLUSH_MS);
  for (let polls = 0; polls < FLUSH_POLLS_MIN || (streams.size > 0 && !flush.isOver); polls += 1)
    if (await within(clock, DRAIN_POLL_MS, closed)) break;
  flush.cancel();
}

function runningTimeout(clock: Clock, delayMs: number): { readonly isOver: boolean; cancel(): void } {
  let isOver = delayMs <= 0;
  const timer = runningTimer(clock, delayMs, () => (isOver = true));
  return {
    get isOver() {
      return isOver;
    },
    cancel: () => timer.cancel(),
  };
}

/** Calls on the stream may be running or done, so it must not say that nothing was applied. */
function drainingError(): ConcordError {
  return new ConcordError("DRAINING", "the server is shutting down; connect to another one", { applied: "unknown" });
}

function within(clock: Clock, delayMs: number, done: Promise<unknown>): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = clock.setTimer(Math.max(0, delayMs), () => resolve(false));
    void done.then(() => {
      timer.cancel();
      resolve(true);
    });
  });
}

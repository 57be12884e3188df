/**
 * A network inside one process: every message is encoded and decoded for real, delivery is in order and takes one `clock.defer` turn. It
 * never loses anything; faults are the simulator's business.
 */
import {
  assert,
  ConcordError,
  toConcordError,
  type CallContext,
  type CallOptions,
  type Channel,
  type Clock,
  type Listener,
  type MessageStream,
  type Metadata,
  type MethodDescriptor,
  type ServedMethod,
  type StreamOptions,
  type Transport,
} from "@concord/runtime";
import { MESSAGE_BYTES_MAX } from "./limits.ts";
import { decodeRequest, encodeRequest, encodeResponse, endingError } from "./messages.ts";
import { decodeStatus, encodeStatus, publicError } from "./status.ts";

export interface MemoryTransportOptions {
  readonly clock: Clock;
  readonly messageBytesMax?: number;
}

interface MemoryServer {
  readonly methods: ReadonlyMap<string, ServedMethod>;
  readonly streams: Set<StreamEnd>;
}

/** Servers and channels of one in-process network. */
export class MemoryTransport implements Transport {
  readonly #clock: Clock;
  readonly #messageBytesMax: number;
  readonly #servers = new Map<string, MemoryServer>();
  #lastPort = 0;

  constructor(options: MemoryTransportOptions) {
    this.#clock = options.clock;
    this.#messageBytesMax = options.messageBytesMax ?? MESSAGE_BYTES_MAX;
  }

  /** An address ending in ":0" gets a free port, as on a real network. */
  serve(address: string, methods: readonly ServedMethod[]): Promise<Listener> {
    this.#lastPort += 1;
    const bound = address.replace(/:0$/, `:${this.#lastPort}`);
    assert(!this.#servers.has(bound), `${bound} is in use`);
    const server: MemoryServer = { methods: new Map(methods.map((one) => [one.method.path, one])), streams: new Set() };
    this.#servers.set(bound, server);
    const drain = (): Promise<void> => {
      this.#servers.delete(bound);
      for (const stream of server.streams) stream.end(new ConcordError("DRAINING", "the server shuts down", { applied: "unknown" }));
      return Promise.resolve();
    };
    return Promise.resolve({ address: bound, drain });
  }

  connect(address: string): Channel {
    const closers = new Set<() => void>();
    return {
      address,
      unary: (method, request, options) => this.#unary(address, method, request, options),
      stream: (method, options) => this.#stream(address, method, options, closers),
      close: () => {
        for (const close of closers) close();
      },
    };
  }

  #unary(address: string, method: MethodDescriptor, request: object, options: CallOptions): Promise<object> {
    return new Promise((resolve, reject) => {
      const bytes = encodeRequest(method, request, this.#messageBytesMax);
      const { timeoutMs, signal } = options;
      if (!(timeoutMs > 0)) throw new ConcordError("DEADLINE_EXCEEDED", "no time is left for the call", { applied: "no" });
      if (signal?.aborted === true) throw new ConcordError("CANCELLED", "the caller gave up on the call", { applied: "no" });
      const abort = new AbortController();
      const finish = (): void => {
        timer.cancel();
        signal?.removeEventListener("abort", cancel);
      };
      const fail = (error: ConcordError): void => {
        finish();
        abort.abort();
        reject(error);
      };
      const timer = this.#clock.setTimer(timeoutMs, () => fail(new ConcordError("DEADLINE_EXCEEDED", `no answer from ${address} in time`)));
      const cancel = (): void => fail(new ConcordError("CANCELLED", "the caller gave up"));
      signal?.addEventListener("abort", cancel, { once: true });
      const succeed = (answer: Uint8Array): void => {
        finish();
        resolve(method.decodeResponse(answer));
      };
      this.#clock.defer(() => {
        this.#handleUnary(address, method, bytes, options, abort.signal).then(
          (response) => this.#clock.defer(() => succeed(response)),
          (thrown: unknown) => this.#clock.defer(() => fail(overTheWire(thrown))),
        );
      });
    });
  }

  async #handleUnary(
    address: string,
    method: MethodDescriptor,
    bytes: Uint8Array,
    options: CallOptions,
    signal: AbortSignal,
  ): Promise<Uint8Array> {
    const served = this.#find(address, method);
    assert(served.kind === "unary", `${method.path} is no unary method`);
    const context = this.#context(options.metadata, this.#clock.monotonicMs() + options.timeoutMs, signal);
    const response = await served.handle(decodeRequest(method, bytes, this.#messageBytesMax), context);
    return encodeResponse(method, response, this.#messageBytesMax);
  }

  #stream(address: string, method: MethodDescriptor, options: StreamOptions, closers: Set<() => void>): MessageStream {
    const abort = new AbortController();
    const client = new StreamEnd("client", this.#clock, method.encodeRequest, method.decodeResponse);
    let serving = method;
    const decode = (bytes: Uint8Array): object => decodeRequest(serving, bytes, this.#messageBytesMax);
    const server = new StreamEnd("server", this.#clock, (message) => serving.encodeResponse(message), decode);
    client.other = server;
    server.other = client;
    const close = (): void => client.end(new ConcordError("CANCELLED", "the channel was closed"));
    closers.add(close);
    client.onClosed = () => closers.delete(close);
    this.#clock.defer(() => {
      try {
        const served = this.#find(address, method);
        assert(served.kind === "stream", `${method.path} is no stream method`);
        serving = served.method;
        const streams = this.#servers.get(address)!.streams;
        streams.add(server);
        server.onClosed = () => {
          streams.delete(server);
          abort.abort();
        };
        served.handle(server, this.#context(options.metadata, Infinity, abort.signal));
      } catch (thrown) {
        server.end(publicError(thrown));
      }
    });
    return client;
  }

  #find(address: string, method: MethodDescriptor): ServedMethod {
    const server = this.#servers.get(address);
    if (server === undefined) throw new ConcordError("CONNECTION_LOST", `nothing listens on ${address}`, { applied: "no" });
    const served = server.methods.get(method.path);
    if (served === undefined) throw new ConcordError("UNIMPLEMENTED", `${method.path} is not implemented`);
    return served;
  }

  #context(metadata: Metadata | undefined, deadlineAtMs: number, signal: AbortSignal): CallContext {
    return { deadlineAtMs, metadata: metadata ?? {}, peer: "memory", signal };
  }
}

type Event = { readonly kind: "message"; readonly bytes: Uint8Array } | { readonly kind: "end"; readonly error: Error | undefined };

/** One end of a stream; what this end sends arrives at `other` in order. */
class StreamEnd implements MessageStream {
  other!: StreamEnd;
  onClosed: () => void = () => undefined;
  readonly #side: "client" | "server";
  readonly #clock: Clock;
  readonly #encode: (message: object) => Uint8Array;
  readonly #decode: (bytes: Uint8Array) => object;
  /** Arrived before there was a listener. */
  readonly #early: Event[] = [];
  #onMessage: ((message: object) => void) | undefined;
  #onEnd: ((error: Error | undefined) => void) | undefined;
  #sentEnd = false;
  #ended = false;

  constructor(side: "client" | "server", clock: Clock, encode: (message: object) => Uint8Array, decode: (bytes: Uint8Array) => object) {
    this.#side = side;
    this.#clock = clock;
    this.#encode = encode;
    this.#decode = decode;
  }

  send(message: object): boolean {
    const bytes = this.#encode(message);
    if (!this.#sentEnd) this.#deliver({ kind: "message", bytes });
    return true;
  }

  onMessage(listener: (message: object) => void): void {
    this.#onMessage = listener;
    this.#catchUp();
  }

  onDrain(): void {
    // send never answers false.
  }

  onEnd(listener: (error: Error | undefined) => void): void {
    this.#onEnd = listener;
    this.#catchUp();
  }

  /** A client that ends in good order can still receive; every other end is the end of both directions. */
  end(error?: Error): void {
    if (this.#sentEnd) return;
    this.#sentEnd = true;
    this.#deliver({ kind: "end", error: error === undefined ? undefined : overTheWire(error) });
    if (this.#side === "server" || error !== undefined) this.receive({ kind: "end", error });
    this.#closeIfBothEnded();
  }

  receive(event: Event): void {
    if (this.#ended) return;
    if (this.#onMessage === undefined || this.#onEnd === undefined) {
      this.#early.push(event);
      return;
    }
    if (event.kind === "message") {
      this.#receiveMessage(event.bytes);
      return;
    }
    this.#ended = true;
    if (this.#side === "client" || event.error !== undefined) this.#sentEnd = true;
    this.#onEnd(event.error);
    this.#closeIfBothEnded();
  }

  #receiveMessage(bytes: Uint8Array): void {
    let message: object;
    try {
      message = this.#decode(bytes);
    } catch (thrown) {
      this.end(endingError(thrown));
      return;
    }
    this.#onMessage!(message);
  }

  #deliver(event: Event): void {
    this.#clock.defer(() => this.other.receive(event));
  }

  #catchUp(): void {
    if (this.#onMessage === undefined || this.#onEnd === undefined) return;
    for (const event of this.#early.splice(0)) this.receive(event);
  }

  #closeIfBothEnded(): void {
    if (this.#sentEnd && this.#ended) this.onClosed();
  }
}

/** An error as the other side sees it: through its encoded status. */
function overTheWire(thrown: unknown): ConcordError {
  const error = publicError(thrown);
  return decodeStatus(encodeStatus(error)) ?? toConcordError(thrown);
}

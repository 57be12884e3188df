/**
 * One call of a stream method that is no session: its handler reads messages as they come and sends as fast as the client takes them. The
 * stream ends when the handler settles.
 */
import type { Method } from "@concord/protos";
import { ConcordError, type CallContext, type MessageStream, type Metadata, type OutputBudget, type OutputShare } from "@concord/runtime";
import type { Caller } from "./auth.ts";
import { STREAM_EARLY_MESSAGES_MAX } from "./limits.ts";
import { publicError } from "./status.ts";

export interface StreamContext {
  readonly caller: Caller;
  readonly metadata: Metadata;
  readonly peer: string;
  /** Aborted when no more messages are wanted: the client has ended its side or is gone, a message was refused, or the server drains. */
  readonly signal: AbortSignal;
}

/** A large message with the memory it takes. */
export interface Page<Message extends object> {
  readonly message: Message;
  readonly bytes: number;
}

/** The server's end of a stream. */
export interface RequestStream<Request extends object, Response extends object> {
  /** Called for each message in order, from the handler's first turn on. What it throws ends the stream. */
  onMessage(listener: (message: Request) => void): void;
  /** Resolves when the client's transport takes more, or the signal is aborted. */
  send(message: Response): Promise<void>;
  /**
   * As `send`, for a message of many bytes: `make` is called when the process has `bytesMax` to spare for it. What it answers undefined for is not
   * sent. A client that does not read is broken off (OVERLOADED) when others wait for its memory.
   */
  sendPage(bytesMax: number, make: () => Promise<Page<Response> | undefined>): Promise<void>;
}

/** Runs until it settles: then the stream is over, in good order or with what it threw. It must settle soon after its signal. */
export type StreamHandler<Request extends object, Response extends object> = (
  stream: RequestStream<Request, Response>,
  context: StreamContext,
) => Promise<void>;

export interface StreamOptions {
  readonly method: Method;
  readonly handler: StreamHandler<object, object>;
  readonly caller: Caller;
  /** Hears once how the stream ended; undefined = in good order. */
  readonly onEnded: (error: ConcordError | undefined, thrown: unknown) => void;
}

export interface RunningStream {
  /** Aborts the handler's signal; then the stream ends with DRAINING. */
  drain(reason: ConcordError): void;
}

export function serveStream(stream: MessageStream, context: CallContext, options: StreamOptions): RunningStream {
  return new ServedStream(stream, context, options);
}

class ServedStream implements RunningStream, RequestStream<object, object>, StreamContext {
  readonly caller: Caller;
  readonly metadata: Metadata;
  readonly peer: string;
  readonly #stream: MessageStream;
  readonly #options: StreamOptions;
  readonly #output: OutputBudget | undefined;
  readonly #controller = new AbortController();
  #listener: ((message: object) => void) | undefined;
  /** Messages that came before there was a listener; at most STREAM_EARLY_MESSAGES_MAX. */
  #early: object[] | undefined = [];
  #blocked: (() => void)[] = [];
  /** Why the stream ends with an error although the handler settles well. */
  #reason: ConcordError | undefined;
  #isGone = false;

  constructor(stream: MessageStream, context: CallContext, options: StreamOptions) {
    this.#stream = stream;
    this.#options = options;
    this.#output = context.output;
    this.caller = options.caller;
    this.metadata = context.metadata;
    this.peer = context.peer;
    stream.onMessage((message) => this.#receive(message));
    stream.onDrain(() => this.#unblock());
    stream.onEnd((error) => {
      this.#isGone = error !== undefined;
      this.#abort();
    });
    void this.#run();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  drain(reason: ConcordError): void {
    this.#refuse(reason);
  }

  onMessage(listener: (message: object) => void): void {
    this.#listener = listener;
    const early = this.#early ?? [];
    this.#early = undefined;
    for (const message of early) this.#hand(message);
  }

  send(message: object): Promise<void> {
    if (this.#isGone || this.#stream.send(message) || this.signal.aborted) return Promise.resolve();
    return new Promise((resolve) => this.#blocked.push(resolve));
  }

  async sendPage(bytesMax: number, make: () => Promise<Page<object> | undefined>): Promise<void> {
    const share = await this.#output?.take(bytesMax, this.signal);
    try {
      // The page is not kept while its bytes wait for the client.
      if (!this.signal.aborted) await make().then((page) => (page === undefined ? undefined : this.#handOver(page, share)));
    } finally {
      share?.release();
    }
  }

  #handOver({ message, bytes }: Page<object>, share: OutputShare | undefined): Promise<void> {
    share?.resize(bytes);
    const sent = this.send(message);
    share?.unread((reason) => this.#refuse(reason));
    return sent;
  }

  #receive(message: object): void {
    if (this.signal.aborted) return;
    const field = this.#options.method.unknownEnumIn(message);
    if (field !== undefined) {
      this.#refuse(new ConcordError("MALFORMED_REQUEST", `${field} has an unknown value`, { applied: "unknown", metadata: { field } }));
    } else if (this.#early === undefined) this.#hand(message);
    else if (this.#early.length < STREAM_EARLY_MESSAGES_MAX) this.#early.push(message);
    else this.#refuse(tooEarly());
  }

  #hand(message: object): void {
    if (this.signal.aborted) return;
    try {
      this.#listener?.(message);
    } catch (thrown) {
      this.#refuse(publicError(thrown));
    }
  }

  #refuse(reason: ConcordError): void {
    this.#reason ??= reason;
    this.#abort();
  }

  #abort(): void {
    if (this.#early !== undefined) this.#early = [];
    this.#controller.abort();
    this.#unblock();
  }

  #unblock(): void {
    for (const resolve of this.#blocked.splice(0)) resolve();
  }

  async #run(): Promise<void> {
    const thrown: unknown = await this.#settled();
    // To a client that is gone nothing is said; what the handler throws then is a consequence.
    const error = this.#reason ?? (thrown === undefined || this.#isGone ? undefined : publicError(thrown));
    this.#stream.end(error);
    this.#abort();
    this.#options.onEnded(error, this.#isGone ? undefined : thrown);
  }

  async #settled(): Promise<unknown> {
    try {
      await this.#options.handler(this, this);
      return undefined;
    } catch (thrown) {
      return thrown ?? new ConcordError("INTERNAL", "a handler threw nothing");
    }
  }
}

function tooEarly(): ConcordError {
  const metadata = { limit: "STREAM_EARLY_MESSAGES_MAX", value: String(STREAM_EARLY_MESSAGES_MAX) };
  return new ConcordError(
    "LIMIT_EXCEEDED",
    `the server has not read the first ${STREAM_EARLY_MESSAGES_MAX} messages yet; send more later`,
    {
      applied: "unknown",
      metadata,
    },
  );
}

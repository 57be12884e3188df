// HTTP over simulated streams: one stream per request, so bodies stall, break off midway and arrive in order as on a real connection.
import {
  ConcordError,
  sleep,
  toConcordError,
  type CallContext,
  type Channel,
  type Clock,
  type HttpHandler,
  type HttpListener,
  type HttpRequest,
  type HttpResponse,
  type HttpServer,
  type MessageStream,
  type MethodDescriptor,
  type Transport,
} from "@concord/runtime";

/** What travels: the head of a request or a response, then blobs of its body. The end of the stream is the body's. */
type Part = { readonly head: object; readonly bytes?: undefined } | { readonly head?: undefined; readonly bytes: Uint8Array };

const HEAD = 0;
const BODY = 1;
/** Bytes of a body in one message. */
const BODY_PART_BYTES = 16_384;
const POLL_MS = 5;

function encodePart(part: object): Uint8Array {
  const { head, bytes } = part as Part;
  const content = head === undefined ? bytes : Buffer.from(JSON.stringify(head));
  const encoded = new Uint8Array(content.length + 1);
  encoded[0] = head === undefined ? BODY : HEAD;
  encoded.set(content, 1);
  return encoded;
}

function decodePart(encoded: Uint8Array): Part {
  const content = encoded.subarray(1);
  return encoded[0] === HEAD ? { head: JSON.parse(Buffer.from(content).toString()) as object } : { bytes: content };
}

const EXCHANGE: MethodDescriptor = {
  path: "/simulation.Http/Exchange",
  requestStream: true,
  responseStream: true,
  encodeRequest: encodePart,
  decodeRequest: decodePart,
  encodeResponse: encodePart,
  decodeResponse: decodePart,
};

/** Bytes of a body as they arrive; fails when the other side breaks off. */
class IncomingBody implements AsyncIterable<Uint8Array> {
  readonly #waiting: Uint8Array[] = [];
  #end: { readonly error: Error | undefined } | undefined;
  #wake: () => void = () => undefined;

  push(bytes: Uint8Array): void {
    this.#waiting.push(bytes);
    this.#wake();
  }

  end(error: Error | undefined): void {
    this.#end ??= { error };
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncIterator<Uint8Array> {
    for (;;) {
      const bytes = this.#waiting.shift();
      if (bytes !== undefined) yield bytes;
      else if (this.#end?.error !== undefined) throw this.#end.error;
      else if (this.#end !== undefined) return;
      else await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }
}

/** Sends a body in small parts, as fast as the stream takes them. */
class OutgoingBody {
  readonly #stream: MessageStream;
  #room: () => void = () => undefined;
  #isGone = false;

  constructor(stream: MessageStream) {
    this.#stream = stream;
    stream.onDrain(() => this.#room());
    stream.onEnd((error) => {
      this.#isGone = error !== undefined;
      if (this.#isGone) this.#room();
    });
  }

  /** Rejects when the other side is gone, so that the producer of the body stops. */
  async send(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length; at += BODY_PART_BYTES) {
      if (this.#isGone) throw new ConcordError("CANCELLED", "the other side went away");
      const room = new Promise<void>((resolve) => (this.#room = resolve));
      if (!this.#stream.send({ bytes: bytes.subarray(at, at + BODY_PART_BYTES) })) await room;
    }
  }
}

/** An HTTP server of one simulated process. */
export function simulatedHttp({ transport, clock }: { readonly transport: Transport; readonly clock: Clock }): HttpServer {
  return {
    serve: async (address, handler): Promise<HttpListener> => {
      let inFlight = 0;
      let isAccepting = true;
      const handle = (stream: MessageStream, context: CallContext): void => {
        if (!isAccepting) return stream.end(new ConcordError("DRAINING", `${address} is going away`));
        inFlight += 1;
        void answer(stream, context, handler).finally(() => (inFlight -= 1));
      };
      const listener = await transport.serve(address, [{ kind: "stream", method: EXCHANGE, handle }]);
      const drain = async (graceMs: number): Promise<void> => {
        isAccepting = false;
        const untilMs = clock.monotonicMs() + graceMs;
        while (inFlight > 0 && clock.monotonicMs() < untilMs) await new Promise<void>((resolve) => clock.setTimer(POLL_MS, resolve));
        await listener.drain(0);
      };
      return { address: listener.address, drain };
    },
  };
}

async function answer(stream: MessageStream, context: CallContext, handler: HttpHandler): Promise<void> {
  const body = new IncomingBody();
  const head = await new Promise<object | undefined>((resolve) => {
    stream.onMessage((message) => {
      const part = message as Part;
      if (part.head !== undefined) resolve(part.head);
      else body.push(part.bytes);
    });
    stream.onEnd((error) => {
      body.end(error);
      resolve(undefined);
    });
  });
  if (head === undefined) return;
  const request = { ...(head as HttpRequest), body, peer: context.peer, signal: context.signal };
  await respond(stream, await handler(request), request.method).catch((thrown: unknown) => stream.end(toConcordError(thrown)));
}

async function respond(stream: MessageStream, { status, headers, body }: HttpResponse, method: string): Promise<void> {
  stream.send({ head: { status, headers } });
  const outgoing = new OutgoingBody(stream);
  if (method === "HEAD" || body === undefined) return stream.end();
  if (body instanceof Uint8Array) await outgoing.send(body);
  else for await (const bytes of body) await outgoing.send(bytes);
  stream.end();
}

export interface SimulatedRequest {
  readonly method: string;
  readonly target: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body?: readonly Uint8Array[];
  readonly timeoutMs: number;
  /** Breaks off before this chunk of the body. */
  readonly breakAt?: number;
  /** A slow client: so long before each chunk of the body. */
  readonly pauseMs?: number;
}

export interface SimulatedResponse {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: Uint8Array;
}

export interface SimulatedHttpClient {
  /** Rejects when the answer did not arrive whole: the server may have done what it was asked. */
  send(request: SimulatedRequest): Promise<SimulatedResponse>;
  close(): void;
}

/** A client of one address, inside a simulated process. */
export function simulatedHttpClient(
  { transport, clock }: { readonly transport: Transport; readonly clock: Clock },
  address: string,
): SimulatedHttpClient {
  const channel = transport.connect(address);
  return { send: (request) => exchange(channel, clock, request), close: () => channel.close() };
}

function exchange(channel: Channel, clock: Clock, request: SimulatedRequest): Promise<SimulatedResponse> {
  const stream = channel.stream(EXCHANGE, {});
  return new Promise((resolve, reject) => {
    const timer = clock.setTimer(request.timeoutMs, () => {
      reject(new ConcordError("DEADLINE_EXCEEDED", `no answer within ${request.timeoutMs} ms`));
      stream.end(new ConcordError("CANCELLED", "the client waits no longer"));
    });
    let head: { readonly status: number; readonly headers: readonly (readonly [string, string])[] } | undefined;
    const chunks: Uint8Array[] = [];
    stream.onMessage((message) => {
      const part = message as Part;
      if (part.head === undefined) chunks.push(part.bytes);
      else head = part.head as typeof head;
    });
    stream.onEnd((error) => {
      timer.cancel();
      if (error !== undefined || head === undefined) reject(error ?? new ConcordError("CONNECTION_LOST", "the answer has no head"));
      else resolve({ status: head.status, headers: new Map(head.headers), body: Buffer.concat(chunks) });
    });
    sendRequest(stream, clock, request).catch(() => undefined);
  });
}

async function sendRequest(stream: MessageStream, clock: Clock, request: SimulatedRequest): Promise<void> {
  const { method, target, headers, body = [], breakAt, pauseMs = 0 } = request;
  stream.send({ head: { method, target, headers } });
  const outgoing = new OutgoingBody(stream);
  for (const [at, bytes] of body.entries()) {
    if (at === breakAt) return stream.end(new ConcordError("CANCELLED", "the client breaks off"));
    if (pauseMs > 0) await sleep(clock, pauseMs);
    await outgoing.send(bytes);
  }
  stream.end();
}

/**
 * HTTP as an argument: node's server, or the simulator's network. The handler sees a request as it was sent: the target undecoded, all
 * headers in order with duplicates, the body as a stream that is read only on demand.
 */
export interface HttpRequest {
  readonly method: string;
  /** Path and query exactly as sent. */
  readonly target: string;
  /** Names in lower case, values as sent, in order, duplicates kept. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  /** Ends early with an error when the client breaks off. `100 Continue` is sent when it is first asked. Read at most once. */
  readonly body: AsyncIterable<Uint8Array>;
  /** The client's address, for logs. */
  readonly peer: string;
  /** Aborted when the client went away or the server gave the request up. */
  readonly signal: AbortSignal;
}

export interface HttpResponse {
  readonly status: number;
  readonly headers: readonly (readonly [name: string, value: string])[];
  /** Undefined: none (and for HEAD none is sent whatever it is). A stream that throws breaks the connection off: never a clean end of wrong bytes. */
  readonly body?: Uint8Array | AsyncIterable<Uint8Array>;
}

/** Never rejects: what goes wrong is a response. */
export type HttpHandler = (request: HttpRequest) => Promise<HttpResponse>;

export interface HttpListener {
  /** "127.0.0.1:40123" */
  readonly address: string;
  /** Stops accepting, waits for requests in flight at most `graceMs`, then breaks them off. Never hangs. */
  drain(graceMs: number): Promise<void>;
}

export interface HttpServer {
  serve(address: string, handler: HttpHandler): Promise<HttpListener>;
}

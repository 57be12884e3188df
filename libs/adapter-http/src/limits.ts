// Defaults of the server's limits. Each is tested below, at and above it (with smaller numbers).

export interface HttpLimits {
  /** All headers of a request together, with the request line; above: 431. */
  readonly headerBytesMax: number;
  /** Header lines of a request; above: 431. */
  readonly headersMax: number;
  /** Time until all headers are there, also on a connection that says nothing; then 408 and the end of it. */
  readonly headersTimeoutMs: number;
  /** A connection without a request is closed after this. */
  readonly keepAliveMs: number;
  /** Connections; one more is closed at once. No address (of IPv6: no /64 network) can use them up; all connections of a proxy have one. */
  readonly connectionsMax: number;
  /** Requests of one connection that run at once; one more breaks it off. */
  readonly pipelinedMax: number;
  /** While we wait for the client (bytes of a body, or room for an answer) it must move `paceBytesMin` every `paceWindowMs`. */
  readonly paceWindowMs: number;
  readonly paceBytesMin: number;
  /** Bytes of one request that wait in memory before the client is stopped; also the largest chunk handed out. */
  readonly bufferBytes: number;
  /** How much of an unread body is read and discarded, so that the client sees the answer. */
  readonly discardBytesMax: number;
  readonly discardMs: number;
}

export const HTTP_LIMITS: HttpLimits = {
  headerBytesMax: 32 * 1024,
  headersMax: 200,
  headersTimeoutMs: 10_000,
  keepAliveMs: 60_000,
  connectionsMax: 4096,
  pipelinedMax: 8,
  paceWindowMs: 20_000,
  paceBytesMin: 4 * 1024,
  bufferBytes: 256 * 1024,
  discardBytesMax: 1024 * 1024,
  discardMs: 2000,
};

/**
 * Time for clients to come back, whose connections a server about to drain ended with its answers, before it takes no connection any more.
 * Time in which the process does not run does not count.
 */
export const RECONNECT_MS = 100;
/** Connections that the system makes before they are taken. */
export const BACKLOG = 511;

/** How often connections are looked at for `headersTimeoutMs`. */
export const CONNECTIONS_CHECK_MS = 1000;

/**
 * A server that drains answers requests on open connections with `connection: close`, and ends idle ones when none has come for so long, at most after half
 * the grace. Time in which the process does not run does not count.
 */
export const DRAIN_IDLE_MS = 500;

// HTTP for S3 over node:http. Strict: what could be read in two ways is refused.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { Server as NetServer, type Socket } from "node:net";
import {
  addressOwner,
  ConcordError,
  FairShares,
  isLoopback,
  runningTimer,
  silentMetrics,
  toConcordError,
  type Clock,
  type HttpHandler,
  type HttpListener,
  type HttpResponse,
  type HttpServer,
  type Log,
  type Metrics,
} from "@concord/runtime";
import { discardRest } from "./discard.ts";
import { BACKLOG, CONNECTIONS_CHECK_MS, DRAIN_IDLE_MS, HTTP_LIMITS, RECONNECT_MS, type HttpLimits } from "./limits.ts";
import { createPace } from "./pace.ts";
import { refusedHeaders, toHttpRequest } from "./request.ts";
import { release, sendResponse } from "./response.ts";

/** PEM. */
export interface HttpTls {
  readonly certificate: string | Uint8Array;
  readonly key: string | Uint8Array;
  /** With it a client without a certificate of this authority is not let in. */
  readonly clientCa?: string | Uint8Array;
}

export interface NodeHttpServerOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics?: Metrics;
  readonly limits?: Partial<HttpLimits>;
  /** While it says so each answer ends its connection: the process is about to stop, and clients go elsewhere one by one. */
  readonly isLeaving?: () => boolean;
  /** Undefined: plain HTTP. */
  readonly tls?: HttpTls;
  /** Other texts for `tls`, while it runs: for connections made from then on. */
  readonly tlsChanges?: (listener: (tls: HttpTls) => void) => void;
}

export function nodeHttpServer(options: NodeHttpServerOptions): HttpServer {
  return { serve: (address, handler) => new Host(options, handler).listen(address) };
}

type Reason = "malformed" | "limit" | "slow" | "client_gone" | "answer_failed" | "drain";

/** One listening server, from `listen` to `drain`. */
class Host implements HttpListener {
  readonly #server: Server;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #metrics: Metrics;
  readonly #limits: HttpLimits;
  readonly #handler: HttpHandler;
  readonly #isLeaving: () => boolean;
  readonly #isEncrypted: boolean;
  /** Answers in flight, by connection. */
  readonly #inFlight = new WeakMap<Socket, Set<ServerResponse>>();
  readonly #aborts = new Set<AbortController>();
  /** Connections by the address they come from (I7). */
  readonly #connections: FairShares;
  /** No connection is taken any more. Only from then on answers end theirs: one made anew before would be reset with the backlog. */
  #isClosed = false;
  /** Connections and requests that have ever come. */
  #taken = 0;
  #requests = 0;
  #address = "";
  #drained: Promise<void> | undefined;
  #whenIdle: (() => void) | undefined;

  constructor({ clock, log, metrics = silentMetrics, limits, isLeaving, tls, tlsChanges }: NodeHttpServerOptions, handler: HttpHandler) {
    [this.#clock, this.#log, this.#metrics, this.#handler] = [clock, log, metrics, handler];
    this.#isLeaving = isLeaving ?? (() => false);
    this.#limits = { ...HTTP_LIMITS, ...limits };
    this.#connections = new FairShares(this.#limits.connectionsMax);
    this.#isEncrypted = tls !== undefined;
    const settings = serverSettings(this.#limits);
    if (tls === undefined) this.#server = createServer(settings);
    else {
      const server = createTlsServer({ ...settings, ...tlsSettings(tls) });
      tlsChanges?.((changed) => server.setSecureContext(tlsSettings(changed)));
      this.#server = server;
    }
    // node drops headers above its own limit in silence; ours refuses the request (I1).
    this.#server.maxHeadersCount = 0;
    this.#server.maxConnections = this.#limits.connectionsMax;
    this.#server.on("request", (incoming, outgoing) => void this.#answer(incoming, outgoing, false));
    this.#server.on("checkContinue", (incoming, outgoing) => void this.#answer(incoming, outgoing, true));
    // An expectation that is not known is ignored, as other S3 servers do; RFC 9110 allows 417.
    this.#server.on("checkExpectation", (incoming, outgoing) => void this.#answer(incoming, outgoing, false));
    this.#server.on("clientError", (error, socket) => this.#malformed(error, socket as Socket));
    this.#server.on("connection", (socket: Socket) => this.#connected(socket));
    this.#server.on("drop", () => this.#count("limit"));
  }

  get address(): string {
    return this.#address;
  }

  listen(address: string): Promise<HttpListener> {
    const [, host, port] = /^(?:\[([^\]]+)\]|[^:]+):(\d+)$/.exec(address) ?? [];
    const name = host ?? address.slice(0, address.lastIndexOf(":"));
    if (port === undefined) throw new ConcordError("MALFORMED_REQUEST", `an address has the form host:port, not ${address}`);
    if (!this.#isEncrypted && !isLoopback(address)) this.#log.warn("serving without TLS beyond loopback", { address });
    return new Promise((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen(Number(port), name, BACKLOG, () => {
        this.#server.off("error", reject);
        this.#server.on("error", (error) => this.#log.error("http server failed", { error: error.message }));
        const bound = this.#server.address();
        const boundPort = bound !== null && typeof bound === "object" ? bound.port : Number(port);
        this.#address = host === undefined ? `${name}:${boundPort}` : `[${name}]:${boundPort}`;
        resolve(this);
      });
    });
  }

  drain(graceMs: number): Promise<void> {
    this.#drained ??= this.#drainOnce(graceMs);
    return this.#drained;
  }

  async #drainOnce(graceMs: number): Promise<void> {
    const late = this.#after(graceMs);
    const polite = this.#after(graceMs / 2);
    if (this.#isLeaving()) await Promise.race([this.#after(RECONNECT_MS).over, polite.over]);
    await this.#takeBacklog();
    // Not the server's own close, which ends idle connections at once: a request may be on its way on each of them.
    const closed = new Promise<void>((resolve) => NetServer.prototype.close.call(this.#server, () => resolve()));
    this.#isClosed = true;
    const isClosed = closed.then((): "closed" => "closed");
    while ((await this.#isQuiet(isClosed, polite.over)) === "busy");
    polite.cancel();
    this.#server.close();
    const idle = new Promise<void>((resolve) => (this.#whenIdle = resolve));
    if (this.#aborts.size > 0 && (await Promise.race([idle, late.over])) === "late") {
      this.#count("drain", this.#aborts.size);
      for (const abort of this.#aborts) abort.abort(new ConcordError("DRAINING", "the server stops"));
    }
    this.#server.closeIdleConnections();
    if ((await Promise.race([closed, late.over])) === "late") this.#server.closeAllConnections();
    late.cancel();
  }

  /** Takes connections that the system has made, which it would reset: at least one in each turn that looks for events, which the first may not. */
  async #takeBacklog(): Promise<void> {
    await this.#nextTurn();
    for (let taken = -1, turns = 0; taken !== this.#taken && turns < BACKLOG; turns += 1) {
      taken = this.#taken;
      await this.#nextTurn();
    }
  }

  /** Waits for DRAIN_IDLE_MS: "busy" when a request came meanwhile, so that more may be on their way. */
  async #isQuiet(closed: Promise<"closed">, late: Promise<"late">): Promise<"busy" | "quiet"> {
    const begun = this.#requests;
    const idle = this.#after(DRAIN_IDLE_MS, "idle");
    const first = await Promise.race([closed, idle.over, late]);
    idle.cancel();
    if (first === "closed") return "quiet";
    // Requests that arrived while the process stood still are read in this turn.
    await this.#nextTurn();
    return first === "late" || this.#requests === begun ? "quiet" : "busy";
  }

  #nextTurn(): Promise<void> {
    return new Promise((resolve) => this.#clock.defer(resolve));
  }

  #after<Name extends string = "late">(delayMs: number, name = "late" as Name): { readonly over: Promise<Name>; cancel(): void } {
    const { promise: over, resolve } = Promise.withResolvers<Name>();
    const timer = runningTimer(this.#clock, delayMs, () => resolve(name));
    return { over, cancel: () => timer.cancel() };
  }

  async #answer(incoming: IncomingMessage, outgoing: ServerResponse, expectsContinue: boolean): Promise<void> {
    const { socket } = incoming;
    this.#requests += 1;
    const others = this.#answersOf(socket);
    const refused = others.size >= this.#limits.pipelinedMax ? "pipelined" : refusedHeaders(incoming.rawHeaders, this.#limits.headersMax);
    // node's emitters report to these what we learn otherwise; without listeners they would end the process.
    incoming.on("error", () => undefined);
    outgoing.on("error", () => undefined);
    if (refused === "pipelined") return this.#breakOff(socket, "limit");
    if (refused !== undefined) return this.#refuse(outgoing, refused);
    const abort = new AbortController();
    others.add(outgoing);
    this.#aborts.add(abort);
    this.#metrics.gauge("http_server_in_flight", this.#aborts.size);
    outgoing.once("close", () => {
      if (outgoing.writableFinished) return;
      this.#count("client_gone");
      abort.abort(new ConcordError("CANCELLED", "the client went away"));
    });
    try {
      await this.#serve(incoming, outgoing, expectsContinue, abort.signal);
    } finally {
      others.delete(outgoing);
      this.#aborts.delete(abort);
      this.#metrics.gauge("http_server_in_flight", this.#aborts.size);
      if (this.#aborts.size === 0) this.#whenIdle?.();
    }
  }

  async #serve(incoming: IncomingMessage, outgoing: ServerResponse, expectsContinue: boolean, signal: AbortSignal): Promise<void> {
    const { paceWindowMs: windowMs, paceBytesMin: bytesMin } = this.#limits;
    const tooSlow = (): void => this.#breakOff(incoming.socket, "slow");
    const pace = createPace({ clock: this.#clock, windowMs, bytesMin, tooSlow });
    const { request, isTaken } = toHttpRequest({ incoming, outgoing, signal, pace, expectsContinue });
    const response = await this.#handled(request);
    if (outgoing.destroyed) return release(response);
    const isOwed = expectsContinue && !isTaken();
    const rest = hasBody(incoming) && !incoming.complete;
    // A body the client was never asked for may come or not: only closing tells the two apart (I3).
    const isEnding = this.#drained === undefined ? this.#isLeaving() : this.#isClosed;
    if (isEnding || (rest && (isOwed || !this.#isSmall(incoming)))) outgoing.shouldKeepAlive = false;
    let isWhole = true;
    const beforeEnd = rest && !isOwed ? async () => void (isWhole = await discardRest(incoming, this.#clock, this.#limits)) : undefined;
    try {
      await sendResponse(response, { outgoing, pace, beforeEnd });
      if (!isWhole) this.#breakOff(incoming.socket, "client_gone");
    } catch (thrown) {
      // Headers that cannot be written: the stream was not begun.
      await release(response).catch(() => undefined);
      this.#log.warn("an answer failed; its connection is broken off", { error: toConcordError(thrown).message });
      this.#breakOff(incoming.socket, "answer_failed");
    }
  }

  /** A handler never rejects; should one, nothing of it goes out. */
  async #handled(request: Parameters<HttpHandler>[0]): Promise<HttpResponse> {
    try {
      return await this.#handler(request);
    } catch (thrown) {
      this.#log.error("a handler failed", { error: toConcordError(thrown).message });
      return { status: 500, headers: [] };
    }
  }

  #isSmall(incoming: IncomingMessage): boolean {
    return Number(incoming.headers["content-length"] ?? Number.POSITIVE_INFINITY) <= this.#limits.discardBytesMax;
  }

  #refuse(outgoing: ServerResponse, status: number): void {
    this.#count(status === 431 ? "limit" : "malformed");
    outgoing.on("error", () => undefined);
    // It stays listed: nothing may be written behind it.
    this.#answersOf(outgoing.req.socket).add(outgoing);
    outgoing.shouldKeepAlive = false;
    outgoing.writeHead(status, ["content-length", "0"]);
    outgoing.end();
  }

  /** What node's parser refuses. An answer goes out only where no other has begun. */
  #malformed(error: Error & { code?: string }, socket: Socket): void {
    const others = [...this.#answersOf(socket)];
    if (others.length > 0 && others.every((outgoing) => outgoing.writableEnded)) return socket.destroySoon();
    const reason: Reason =
      error.code === "ERR_HTTP_REQUEST_TIMEOUT" ? "slow" : error.code === "HPE_HEADER_OVERFLOW" ? "limit" : "malformed";
    const isHttp = error.code?.startsWith("HPE_") === true || error.code === "ERR_HTTP_REQUEST_TIMEOUT";
    if (isHttp && socket.writable && others.length <= 1 && others.every((outgoing) => !outgoing.headersSent)) {
      const status = { slow: "408 Request Timeout", limit: "431 Request Header Fields Too Large", malformed: "400 Bad Request" }[reason];
      socket.write(`HTTP/1.1 ${status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`);
      this.#count(reason);
      socket.destroySoon();
    } else this.#breakOff(socket, reason);
  }

  #answersOf(socket: Socket): Set<ServerResponse> {
    const found = this.#inFlight.get(socket) ?? new Set();
    this.#inFlight.set(socket, found);
    return found;
  }

  #connected(socket: Socket): void {
    this.#taken += 1;
    const owner = addressOwner(socket.remoteAddress);
    if (!this.#connections.take(owner, 1)) return this.#breakOff(socket, "limit");
    this.#metrics.gauge("http_server_connections", this.#connections.used);
    socket.once("close", () => {
      this.#connections.giveBack(owner, 1);
      this.#metrics.gauge("http_server_connections", this.#connections.used);
    });
  }

  #breakOff(socket: Socket, reason: Reason): void {
    if (!socket.destroyed) this.#count(reason);
    socket.destroy();
  }

  #count(reason: Reason, times = 1): void {
    this.#metrics.count("http_server_broken_off_total", times, { reason });
  }
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || (headers["content-length"] ?? "0") !== "0";
}

function tlsSettings({ certificate, key, clientCa }: HttpTls): Parameters<typeof createTlsServer>[0] & object {
  const pair = { cert: Buffer.from(certificate), key: Buffer.from(key), minVersion: "TLSv1.2" as const };
  return clientCa === undefined ? pair : { ...pair, ca: Buffer.from(clientCa), requestCert: true, rejectUnauthorized: true };
}

function serverSettings(limits: HttpLimits): Parameters<typeof createServer>[0] & object {
  return {
    maxHeaderSize: limits.headerBytesMax,
    headersTimeout: limits.headersTimeoutMs,
    // Large bodies take their time; a client that dawdles is found by its pace (I4).
    requestTimeout: 0,
    keepAliveTimeout: limits.keepAliveMs,
    connectionsCheckingInterval: Math.min(CONNECTIONS_CHECK_MS, limits.headersTimeoutMs),
    highWaterMark: limits.bufferBytes,
    insecureHTTPParser: false,
    requireHostHeader: true,
    noDelay: true,
  };
}

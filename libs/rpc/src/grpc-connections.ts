/**
 * Connections of one channel. grpc-js bounds neither the time of a connection attempt nor that of closing (grpc-node#2785), and pings only after a
 * long silence. Its connector takes the bounds from the channel's options; channels without them, of other users of grpc-js, stay as they are.
 */
import type { ClientHttp2Session } from "node:http2";
import { createConnection, type NetConnectOpts, type Socket } from "node:net";
import { Http2SubchannelConnector } from "@grpc/grpc-js/build/src/transport.js";
import type { Clock, Timer } from "@concord/runtime";

/** Maximum time of TCP, TLS and the first frame of HTTP/2 together: two lost SYNs. The kernel alone goes on for 133 s. */
export const CONNECT_TIMEOUT_MS = 5_000;
/** Maximum time that calls in flight keep a closed connection open. */
export const CLOSE_GRACE_MS = 500;
/** Steps of the wait for a ping's answer. Steps, as a process that stood still must not take its own pause for the other's silence. */
export const PING_STEPS = 5;
export const PING_STEP_MS = 200;

/** Parts of a connection of grpc-js that this file uses. */
interface Transport {
  readonly session: ClientHttp2Session;
  /** Ends the calls in flight with UNAVAILABLE and the connection after them. */
  handleDisconnect(): void;
}

interface Connector {
  connect(this: object, address: NetConnectOpts, secure: object, options: object): Promise<Transport>;
  tcpConnect(this: object, address: NetConnectOpts, options: object): Promise<Socket>;
}

interface Attempt {
  readonly fail: (error: Error) => void;
  socket: Socket | undefined;
}

interface Live {
  readonly transport: Transport;
  ping: Timer | undefined;
}

/** The option of a channel that holds its connections. */
const OPTION = "concord.connections";

export class GrpcConnections {
  readonly #clock: Clock;
  readonly #address: string;
  readonly #attempts = new Map<object, Attempt>();
  readonly #live = new Set<Live>();
  #isClosed = false;
  #closing: Timer | undefined;

  constructor(clock: Clock, address: string) {
    this.#clock = clock;
    this.#address = address;
  }

  /** Options of the channel whose connections these are. */
  get channelOption(): Readonly<Record<string, GrpcConnections>> {
    return { [OPTION]: this };
  }

  /** Pings each connection; one that does not answer in time is ended, with its calls. Called when a call had no answer in its time. */
  probe(): void {
    for (const live of this.#live) this.#ping(live);
  }

  /** Ends connection attempts at once and the connections when their calls are done, after `CLOSE_GRACE_MS` at the latest. */
  close(): void {
    this.#isClosed = true;
    for (const { fail } of this.#attempts.values()) fail(new Error("the channel was closed"));
    for (const live of this.#live) live.ping?.cancel();
    if (this.#live.size === 0) return;
    this.#closing ??= this.#clock.setTimer(CLOSE_GRACE_MS, () => {
      for (const { transport } of this.#live) transport.handleDisconnect();
    });
  }

  /** One attempt of a connector, which makes one at a time. */
  async attempt(connector: object, connect: () => Promise<Transport>): Promise<Transport> {
    if (this.#isClosed) throw new Error("the channel was closed");
    let timer: Timer | undefined;
    const failed = new Promise<never>((_resolve, reject) => {
      const attempt: Attempt = {
        socket: undefined,
        fail: (error) => {
          reject(error);
          attempt.socket?.destroy(error);
        },
      };
      this.#attempts.set(connector, attempt);
      const late = new Error(`no connection to ${this.#address} within ${CONNECT_TIMEOUT_MS} ms: the host does not answer`);
      timer = this.#clock.setTimer(CONNECT_TIMEOUT_MS, () => attempt.fail(late));
    });
    try {
      const transport = await Promise.race([connect(), failed]);
      this.#opened(transport);
      return transport;
    } finally {
      timer?.cancel();
      this.#attempts.delete(connector);
    }
  }

  /** The socket of the attempt under way, while it connects. */
  dial(connector: object, address: NetConnectOpts): Promise<Socket> {
    return new Promise((resolve, reject) => {
      const attempt = this.#attempts.get(connector);
      if (attempt === undefined) throw new Error("the connection attempt has ended");
      const socket = createConnection(address);
      attempt.socket = socket;
      const closed = (): void => reject(new Error("Socket closed"));
      socket.once("close", closed);
      socket.once("error", reject);
      socket.once("connect", () => {
        socket.removeListener("close", closed);
        socket.removeListener("error", reject);
        // Ending the attempt may destroy the socket before its next owner listens.
        socket.on("error", () => undefined);
        resolve(socket);
      });
    });
  }

  #opened(transport: Transport): void {
    const live: Live = { transport, ping: undefined };
    this.#live.add(live);
    transport.session.once("close", () => {
      live.ping?.cancel();
      this.#live.delete(live);
      if (this.#live.size === 0) this.#closing?.cancel();
    });
  }

  #ping(live: Live): void {
    const { session } = live.transport;
    if (live.ping !== undefined || session.destroyed) return;
    let steps = 0;
    const step = (): void => {
      steps += 1;
      if (steps <= PING_STEPS) live.ping = this.#clock.setTimer(PING_STEP_MS, step);
      else live.transport.handleDisconnect();
    };
    step();
    const answered = (): void => {
      live.ping?.cancel();
      live.ping = undefined;
    };
    // A ping that could not be sent is not waited for: as many as HTTP/2 allows are under way.
    if (!session.ping(answered)) answered();
  }
}

const connector = Http2SubchannelConnector.prototype as unknown as Connector;
const { connect, tcpConnect } = connector;

connector.connect = function connectBounded(address, secure, options) {
  const connections = connectionsOf(options);
  if (connections === undefined) return connect.call(this, address, secure, options);
  return connections.attempt(this, () => connect.call(this, address, secure, options));
};

connector.tcpConnect = function tcpConnectBounded(address, options) {
  return connectionsOf(options)?.dial(this, address) ?? tcpConnect.call(this, address, options);
};

function connectionsOf(options: object): GrpcConnections | undefined {
  return (options as { readonly [OPTION]?: GrpcConnections })[OPTION];
}

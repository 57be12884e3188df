/** The listening socket of a gRPC server: connections are counted and shared before grpc-js has them. */
import { createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { addressOwner, ConcordError, FairShares, type Clock, type Metrics } from "@concord/runtime";
import { CONNECTION_SILENT_MS_MAX } from "./limits.ts";

/** Bytes with which every connection of HTTP/2 begins. */
const PREFACE_BYTES = 24;

export interface GrpcListenerOptions {
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly connectionsMax: number;
  readonly onConnection: (socket: Socket) => void;
}

interface Connection {
  readonly socket: Socket;
  hasCalled: boolean;
}

export class GrpcListener {
  readonly #options: GrpcListenerOptions;
  readonly #server: Server;
  /** By address: no address can use up all. */
  readonly #shares: FairShares;
  readonly #connections = new Map<string, Connection>();
  #called = 0;

  constructor(options: GrpcListenerOptions) {
    this.#options = options;
    this.#shares = new FairShares(options.connectionsMax);
    this.#server = createServer({ noDelay: true }, (socket) => this.#accept(socket));
    this.#server.maxConnections = options.connectionsMax;
    this.#server.on("drop", () => this.#refused("connections"));
  }

  /** The bound port. Rejects when the address cannot be bound. */
  listen(address: string): Promise<number> {
    const at = address.lastIndexOf(":");
    const host = address.slice(0, at).replace(/^\[(.*)\]$/, "$1");
    const port = Number(address.slice(at + 1));
    if (at < 1 || !Number.isInteger(port)) throw new ConcordError("MALFORMED_REQUEST", `an address has the form host:port, not ${address}`);
    return new Promise((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen(port, host, () => {
        this.#server.off("error", reject);
        resolve((this.#server.address() as AddressInfo).port);
      });
    });
  }

  /** The connection of this peer has had a call. */
  called(peer: string): void {
    const connection = this.#connections.get(peer);
    if (connection === undefined || connection.hasCalled) return;
    connection.hasCalled = true;
    this.#called += 1;
    this.#report();
  }

  /** Takes no new connections; resolves when those that are open have ended. */
  close(): Promise<void> {
    return new Promise((resolve) => this.#server.close(() => resolve()));
  }

  /** Ends those that are left. */
  destroy(): void {
    for (const { socket } of this.#connections.values()) socket.destroy();
  }

  #accept(socket: Socket): void {
    const { clock, onConnection } = this.#options;
    const owner = addressOwner(socket.remoteAddress);
    if (!this.#shares.take(owner, 1)) {
      this.#refused("connections");
      socket.destroy();
      return;
    }
    const peer = `${socket.remoteAddress}:${socket.remotePort}`;
    const connection: Connection = { socket, hasCalled: false };
    this.#connections.set(peer, connection);
    const silence = clock.setTimer(CONNECTION_SILENT_MS_MAX, () => {
      if (socket.bytesRead >= PREFACE_BYTES) return;
      this.#refused("silent");
      socket.destroy();
    });
    socket.once("close", () => {
      silence.cancel();
      this.#connections.delete(peer);
      this.#shares.giveBack(owner, 1);
      if (connection.hasCalled) this.#called -= 1;
      this.#report();
    });
    this.#report();
    onConnection(socket);
  }

  #refused(reason: "connections" | "silent"): void {
    this.#options.metrics.count("rpc_server_refused_total", 1, { reason });
  }

  #report(): void {
    const { metrics } = this.#options;
    metrics.gauge("rpc_server_connections", this.#called, { state: "called" });
    metrics.gauge("rpc_server_connections", this.#connections.size - this.#called, { state: "silent" });
  }
}

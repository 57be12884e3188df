import { toConcordError, type Channel, type ServedMethod, type Transport } from "@concord/runtime";
import { Connection } from "./connection.ts";
import { describeError, type Incarnation, type Witness } from "./incarnation.ts";
import { SimDatagrams } from "./datagrams.ts";
import { Links, type NetworkProfile } from "./links.ts";
import { SimListener } from "./listener.ts";
import type { Pipe } from "./pipe.ts";
import type { Scheduler } from "./scheduler.ts";
import type { SeededRandom } from "./seeded-random.ts";
import { openStream } from "./stream-call.ts";
import { fingerprint, type Trace } from "./trace.ts";
import { callUnary } from "./unary-call.ts";

/** What the network asks the world about nodes. */
export interface NodeDirectory {
  monotonicMs(node: string): number;
  /** The process that runs on the node now, paused or not. */
  current(node: string): Incarnation | undefined;
}

export interface NetworkOptions {
  readonly scheduler: Scheduler;
  readonly random: SeededRandom;
  readonly profile: NetworkProfile;
  readonly trace: Trace;
  readonly witness: Witness;
  readonly directory: NodeDirectory;
}

/** After this long without an answer a connection is given up by both ends, as keepalive does. */
export const KEEPALIVE_US = 3_000_000;
/** A drained process's last answers arrive before its connections close. */
const LINGER_US = 20_000;
const PORT = /:\d+$/;
const ANY_PORT = /:0$/;

/** The simulated network: addresses, connections, lost calls, stalled streams. */
export class SimNetwork {
  readonly scheduler: Scheduler;
  readonly links: Links;
  readonly datagrams: SimDatagrams;
  readonly #options: NetworkOptions;
  readonly #connections = new Set<Connection>();
  readonly #listeners = new Map<string, SimListener>();
  /** Which node last listened at an address: packets to it go there even without a listener. */
  readonly #owners = new Map<string, string>();
  /** Listeners of processes that were replaced and live on. */
  readonly #replaced = new Map<Incarnation, Map<string, SimListener>>();
  readonly #stalledPipes = new Set<Pipe>();
  #callId = 0;
  #port = 40_000;

  constructor(options: NetworkOptions) {
    this.#options = options;
    this.scheduler = options.scheduler;
    this.links = new Links(options.profile, options.random);
    this.datagrams = new SimDatagrams(options.scheduler, this.links, options.trace);
  }

  transport(incarnation: Incarnation): Transport {
    return {
      serve: (address, methods) => this.#serve(incarnation, address, methods),
      connect: (address) => this.#channel(incarnation, address),
    };
  }

  nextCallId(): number {
    this.#callId += 1;
    return this.#callId;
  }

  note(line: string): void {
    this.#options.trace.line(this.scheduler.nowUs, line);
  }

  monotonicMs(incarnation: Incarnation): number {
    return this.#options.directory.monotonicMs(incarnation.node);
  }

  listenerAt(address: string): SimListener | undefined {
    const listener = this.#listeners.get(address);
    return listener === undefined || listener.owner.isDead ? undefined : listener;
  }

  listenerOf(server: Incarnation, address: string): SimListener | undefined {
    const listener = this.#listeners.get(address);
    if (listener?.owner === server) return listener;
    // A replaced process still serves the connections it has.
    return this.#replaced.get(server)?.get(address);
  }

  traceMessage(from: string, to: string, label: string, bytes: Uint8Array): void {
    this.#options.trace.line(this.scheduler.nowUs, `msg ${from} > ${to} ${label} ${fingerprint(bytes)}`);
  }

  /** One message that may get lost: it arrives once, later, or never. */
  deliver(connection: Connection, direction: "to-server" | "to-client", label: string, bytes: Uint8Array, arrive: () => void): void {
    const { client, serverNode } = connection;
    const [from, to] = direction === "to-server" ? [client.node, serverNode] : [serverNode, client.node];
    if (this.links.isLost(from, to) || this.links.isBlocked(from, to)) {
      this.traceMessage(from, to, `${label} LOST`, bytes);
      this.#options.witness.count("sim:messages-lost", 1);
      return;
    }
    this.traceMessage(from, to, label, bytes);
    this.scheduler.after(this.links.delayUs(from, to), () => {
      if (connection.isOverFor(to) || this.isDeadEnd(connection, to) || this.links.isBlocked(from, to)) return;
      arrive();
    });
  }

  /** A packet for a process that died: a process started since resets the connection, an empty host stays silent. */
  isDeadEnd(connection: Connection, to: string): boolean {
    const end = to === connection.client.node && connection.client.isDead ? connection.client : connection.server;
    if (end === undefined || !end.isDead || end.node !== to) return false;
    if (this.#options.directory.current(to)?.isDead === false) connection.break("reset by a new process");
    return true;
  }

  /** A stream waits for a blocked link; if that lasts, keepalive gives the connection up. */
  stalled(pipe: Pipe, connection: Connection): void {
    if (this.#stalledPipes.has(pipe)) return;
    this.#stalledPipes.add(pipe);
    this.scheduler.after(KEEPALIVE_US, () => {
      if (this.#stalledPipes.has(pipe)) connection.break("keepalive");
    });
  }

  block(from: string, to: string): void {
    this.links.block(from, to);
  }

  unblock(from: string, to: string): void {
    this.links.unblock(from, to);
    this.#releaseStalled();
  }

  heal(): void {
    this.links.heal();
    this.datagrams.heal();
    this.#releaseStalled();
  }

  /** The process is gone. `announce`: its host tells the peers at once; else they find out by keepalive or by a reset. */
  crashed(incarnation: Incarnation, announce: boolean): void {
    for (const [address, listener] of this.#listeners) if (listener.owner === incarnation) this.#listeners.delete(address);
    this.#replaced.delete(incarnation);
    for (const connection of this.#connections) {
      if (!connection.touches(incarnation)) continue;
      if (announce) connection.break("process died");
      else this.scheduler.after(KEEPALIVE_US, () => connection.break("keepalive"));
    }
  }

  /** The peers of a process that does not move give its connections up after the keepalive time. */
  paused(incarnation: Incarnation): void {
    const held = [...this.#connections].filter((connection) => connection.touches(incarnation));
    this.scheduler.after(KEEPALIVE_US, () => {
      if (!incarnation.isPaused) return;
      for (const connection of held) connection.break("keepalive");
    });
  }

  /** Some of a replaced process's callers find its replacement at once; the others keep the connection they have. */
  reroute(incarnation: Incarnation): void {
    for (const connection of this.#connections) {
      if (connection.server === incarnation && this.#options.random.chance(0.5)) connection.break("rerouted");
    }
  }

  breakBetween(left: string, right: string): void {
    for (const connection of this.#connections) if (connection.joins(left, right)) connection.break("fault");
  }

  forget(connection: Connection): void {
    this.#connections.delete(connection);
  }

  /** A handler failed. Reasons of the closed list travel on; anything else is a bug of ours. */
  inspectError(server: Incarnation, path: string, thrown: unknown): void {
    if (server.isDead) return;
    const error = toConcordError(thrown);
    if (error.code === "INTERNAL")
      this.#options.witness.violation("internal error", `${server.name} ${path}: ${describeError(error.cause ?? error)}`);
  }

  /** A message that its own contract cannot decode. */
  undecodable(path: string, thrown: unknown): void {
    this.#options.witness.violation("undecodable message", `${path}: ${describeError(thrown)}`);
  }

  async #serve(incarnation: Incarnation, wanted: string, methods: readonly ServedMethod[]): Promise<SimListener> {
    if (incarnation.isDead) return new Promise(() => undefined);
    const address = ANY_PORT.test(wanted) ? wanted.replace(ANY_PORT, `:${(this.#port += 1)}`) : wanted;
    const before = this.#listeners.get(address);
    if (before !== undefined) this.#remember(before);
    const wait = (delayMs: number, action: () => void): void => void this.scheduler.after(delayMs * 1000, () => incarnation.run(action));
    const listener = new SimListener(address, incarnation, methods, (closed) => this.#closed(closed), wait);
    this.#listeners.set(address, listener);
    this.#owners.set(address, incarnation.node);
    this.note(`serve ${incarnation.name} at ${address}`);
    return listener;
  }

  #remember(listener: SimListener): void {
    const mine = this.#replaced.get(listener.owner) ?? new Map<string, SimListener>();
    mine.set(listener.address, listener);
    this.#replaced.set(listener.owner, mine);
  }

  #closed(listener: SimListener): void {
    if (this.#listeners.get(listener.address) === listener) this.#listeners.delete(listener.address);
    for (const connection of this.#connections) {
      if (connection.server === listener.owner && connection.address === listener.address) connection.break("drained", LINGER_US);
    }
  }

  /** Until a process has listened at an address, its host part counts as the node's name. */
  #nodeAt(address: string): string {
    return this.#owners.get(address) ?? address.replace(PORT, "");
  }

  #channel(incarnation: Incarnation, address: string): Channel {
    let connection: Connection | undefined;
    const connected = (): Connection => {
      if (connection === undefined || connection.isBroken) {
        connection = new Connection(this, incarnation, address, this.#nodeAt(address));
        this.#connections.add(connection);
      }
      return connection;
    };
    return {
      address,
      unary: (method, request, options) => callUnary(connected(), this, method, request, options),
      stream: (method, options) => openStream(connected(), this, method, options.metadata ?? {}),
      close: () => connection?.break("closed by the client"),
    };
  }

  #releaseStalled(): void {
    const pipes = [...this.#stalledPipes].filter((pipe) => !this.links.isBlocked(pipe.from, pipe.to));
    for (const pipe of pipes) {
      this.#stalledPipes.delete(pipe);
      pipe.release();
    }
  }
}

import { unreachable, type ConcordError } from "@concord/runtime";
import type { Incarnation } from "./incarnation.ts";
import type { SimListener } from "./listener.ts";
import type { Links } from "./links.ts";
import type { Scheduler } from "./scheduler.ts";
import { connectionLost } from "./wire-error.ts";

/** A call or stream end that must hear when its connection breaks. */
export interface Dependent {
  lost(error: ConcordError): void;
}

type Binding = { readonly kind: "connecting" } | { readonly kind: "bound"; readonly server: Incarnation } | { readonly kind: "broken" };

/** The network as a connection uses it. */
export interface ConnectionNetwork {
  readonly links: Links;
  readonly scheduler: Scheduler;
  note(line: string): void;
  forget(connection: Connection): void;
  listenerAt(address: string): SimListener | undefined;
  listenerOf(server: Incarnation, address: string): SimListener | undefined;
}

/**
 * One connection from a client incarnation to an address. It binds to the process that listens there when its first packet arrives and stays
 * with it: a paused process keeps its connections, its replacement gets new ones.
 */
export class Connection {
  readonly client: Incarnation;
  readonly address: string;
  /** The node that owned the address when the connection was opened: where its packets go. */
  readonly serverNode: string;
  readonly clientSide = new Set<Dependent>();
  readonly serverSide = new Set<Dependent>();
  readonly #network: ConnectionNetwork;
  #binding: Binding = { kind: "connecting" };
  #server: Incarnation | undefined;
  readonly #told = new Set<string>();

  constructor(network: ConnectionNetwork, client: Incarnation, address: string, serverNode: string) {
    this.#network = network;
    this.client = client;
    this.address = address;
    this.serverNode = serverNode;
  }

  get isBroken(): boolean {
    return this.#binding.kind === "broken";
  }

  /** The server's process, once the connection is bound. */
  get server(): Incarnation | undefined {
    return this.#server;
  }

  touches(incarnation: Incarnation): boolean {
    return this.client === incarnation || this.#server === incarnation;
  }

  joins(left: string, right: string): boolean {
    const { node } = this.client;
    return (node === left && this.serverNode === right) || (node === right && this.serverNode === left);
  }

  /** Whether this end already knows that the connection broke: what was sent before may arrive until then. */
  isOverFor(node: string): boolean {
    return this.#told.has(node);
  }

  /** Both ends hear it, each after its own delay and `lingerUs`; the dead do not. */
  break(cause: string, lingerUs = 0): void {
    if (this.isBroken) return;
    this.#binding = { kind: "broken" };
    this.#network.forget(this);
    this.#network.note(`break ${this.client.name}-${this.#server?.name ?? this.address}: ${cause}`);
    this.#tell(this.client, this.clientSide, this.serverNode, lingerUs);
    if (this.#server !== undefined) this.#tell(this.#server, this.serverSide, this.client.node, lingerUs);
  }

  /** The listener at the other end, undefined when it is gone. The first call breaks the connection when there is no listener. */
  bind(): SimListener | undefined {
    switch (this.#binding.kind) {
      case "broken":
        return undefined;
      case "bound":
        return this.#network.listenerOf(this.#binding.server, this.address);
      case "connecting": {
        const listener = this.#network.listenerAt(this.address);
        if (listener === undefined) {
          this.break("refused");
          return undefined;
        }
        this.#server = listener.owner;
        this.#binding = { kind: "bound", server: listener.owner };
        return listener;
      }
      default:
        return unreachable(this.#binding);
    }
  }

  #tell(end: Incarnation, dependents: Set<Dependent>, other: string, lingerUs: number): void {
    const { links, scheduler } = this.#network;
    scheduler.after(lingerUs + links.delayUs(other, end.node), () =>
      end.run(() => {
        this.#told.add(end.node);
        const lost = [...dependents];
        dependents.clear();
        for (const dependent of lost) dependent.lost(connectionLost(this.address, this.#server === undefined ? "no" : "unknown"));
      }),
    );
  }
}

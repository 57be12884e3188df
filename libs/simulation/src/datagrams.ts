import type { Incarnation } from "./incarnation.ts";
import { Blocks, type Links } from "./links.ts";
import type { Scheduler } from "./scheduler.ts";
import { fingerprint, type Trace } from "./trace.ts";

/** A socket of one process: what it sends may be lost, late, or overtaken. */
export interface DatagramSocket {
  send(to: string, bytes: Uint8Array): void;
}

export type OpenDatagrams = (address: string, receive: (bytes: Uint8Array) => void) => DatagramSocket;

interface Bound {
  readonly owner: Incarnation;
  readonly receive: (bytes: Uint8Array) => void;
}

/** Datagrams between nodes, over the same links as calls. The process of a node that started last gets what is sent to its address. */
export class SimDatagrams {
  readonly #bound = new Map<string, Bound>();
  readonly #scheduler: Scheduler;
  readonly #links: Links;
  readonly #trace: Trace;
  /** On top of what the links block: datagrams only. */
  readonly #blocks = new Blocks();

  constructor(scheduler: Scheduler, links: Links, trace: Trace) {
    this.#scheduler = scheduler;
    this.#links = links;
    this.#trace = trace;
  }

  of(owner: Incarnation): OpenDatagrams {
    return (address, receive) => {
      // A replaced process that wakes binds in vain: the address is the new one's.
      const holder = this.#bound.get(address)?.owner;
      const isReplaced = holder?.node === owner.node && holder.generation > owner.generation;
      if (!isReplaced) this.#bound.set(address, { owner, receive });
      return { send: (to, bytes) => this.#send(owner, to, bytes) };
    };
  }

  block(from: string, to: string): void {
    this.#blocks.block(from, to);
  }

  unblock(from: string, to: string): void {
    this.#blocks.unblock(from, to);
  }

  heal(): void {
    this.#blocks.clear();
  }

  #send(from: Incarnation, to: string, bytes: Uint8Array): void {
    const target = this.#bound.get(to);
    if (from.isDead || target === undefined || target.owner.isDead) return;
    const [left, right] = [from.node, target.owner.node];
    const isLost = this.#links.isLost(left, right) || this.#isBlocked(left, right);
    this.#trace.line(this.#scheduler.nowUs, `datagram ${left} > ${right}${isLost ? " LOST" : ""} ${fingerprint(bytes)}`);
    if (isLost) return;
    this.#scheduler.after(this.#links.delayUs(left, right), () => {
      if (!this.#isBlocked(left, right)) target.owner.runBeside(() => target.receive(bytes));
    });
  }

  #isBlocked(from: string, to: string): boolean {
    return this.#blocks.isBlocked(from, to) || this.#links.isBlocked(from, to);
  }
}

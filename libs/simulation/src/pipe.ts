import type { Incarnation } from "./incarnation.ts";
import type { Links } from "./links.ts";
import type { Scheduler } from "./scheduler.ts";

/** Bytes on their way in one direction of a stream before `send` answers false. */
export const STREAM_WINDOW_BYTES = 65_536;

/** The connection as a pipe of it uses it. */
export interface PipeConnection {
  readonly isBroken: boolean;
  isOverFor(node: string): boolean;
}

/** The network as a pipe uses it. */
export interface PipeNetwork {
  readonly links: Links;
  readonly scheduler: Scheduler;
  traceMessage(from: string, to: string, label: string, bytes: Uint8Array): void;
  isDeadEnd(connection: PipeConnection, to: string): boolean;
  stalled(pipe: Pipe, connection: PipeConnection): void;
}

/**
 * One direction of a stream: reliable and in order until the connection breaks (I5). A blocked link stalls it; when the link heals
 * before the keepalive gives up, everything arrives late and in order.
 */
export class Pipe {
  readonly from: string;
  readonly to: string;
  readonly #network: PipeNetwork;
  readonly #connection: PipeConnection;
  readonly #label: string;
  /** What was sent and is not there, in order. */
  readonly #sent: (() => void)[] = [];
  /** How many of the oldest wait for the link. */
  #stalled = 0;
  #lastAtUs = 0;
  #inFlightBytes = 0;
  #drained: () => void = () => undefined;

  constructor(network: PipeNetwork, connection: PipeConnection, from: string, to: string, label: string) {
    this.#network = network;
    this.#connection = connection;
    this.from = from;
    this.to = to;
    this.#label = label;
  }

  get hasRoom(): boolean {
    return this.#inFlightBytes < STREAM_WINDOW_BYTES;
  }

  /** Called at the sender when the window opened again. */
  onDrained(listener: () => void): void {
    this.#drained = listener;
  }

  /** `arrive` runs when the bytes are at the other host; it hands them to the process there and calls `consumed`. */
  send(kind: string, bytes: Uint8Array, arrive: () => void): void {
    if (this.#connection.isBroken) return;
    this.#inFlightBytes += bytes.length;
    this.#network.traceMessage(this.from, this.to, `${this.#label} ${kind}`, bytes);
    this.#sent.push(arrive);
    this.#schedule();
  }

  consumed(sender: Incarnation, length: number): void {
    const hadRoom = this.hasRoom;
    this.#inFlightBytes -= length;
    if (hadRoom || !this.hasRoom) return;
    const { links, scheduler } = this.#network;
    scheduler.after(links.delayUs(this.to, this.from), () => sender.run(this.#drained));
  }

  /** The link is open again: what waited travels now, in order. */
  release(): void {
    const waiting = this.#stalled;
    this.#stalled = 0;
    for (let n = 0; n < waiting; n += 1) this.#schedule();
  }

  /** The next one that arrives then is the oldest: what was under way when the link opened does not overtake what had waited. */
  #schedule(): void {
    const { links, scheduler } = this.#network;
    const atUs = Math.max(this.#lastAtUs + 1, scheduler.nowUs + links.delayUs(this.from, this.to));
    this.#lastAtUs = atUs;
    scheduler.at(atUs, () => this.#arrived());
  }

  #arrived(): void {
    if (this.#connection.isOverFor(this.to) || this.#network.isDeadEnd(this.#connection, this.to)) return;
    if (this.#stalled > 0 || this.#network.links.isBlocked(this.from, this.to)) {
      this.#stalled += 1;
      this.#network.stalled(this, this.#connection);
      return;
    }
    this.#sent.shift()!();
  }
}

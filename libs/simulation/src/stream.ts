import { ConcordError, unreachable, type MessageStream } from "@concord/runtime";
import type { Incarnation } from "./incarnation.ts";
import type { Pipe } from "./pipe.ts";
import { decodeError, encodeError } from "./wire-error.ts";

type Phase =
  | { readonly kind: "open" }
  /** This side said its last word; the other may go on (a client that half-closed). */
  | { readonly kind: "ended-here" }
  /** The client half-closed; this server may still answer. */
  | { readonly kind: "peer-ended" }
  | { readonly kind: "over" };

export interface StreamOptions {
  readonly owner: Incarnation;
  readonly side: "client" | "server";
  readonly outgoing: Pipe;
  readonly incoming: Pipe;
  readonly encode: (message: object) => Uint8Array;
  readonly decode: (bytes: Uint8Array) => object;
  /** Called once when nothing more will happen on this end. */
  readonly closed: () => void;
  /** A message that cannot be decoded is our bug: it was encoded by the same contract. */
  readonly undecodable: (thrown: unknown) => void;
}

const NO_BYTES = new Uint8Array(0);

/** One end of a simulated stream. Ending as the server ends the call; ending as the client half-closes it, with an error cancels it, also when it was half-closed. */
export class SimStream implements MessageStream {
  readonly #options: StreamOptions;
  #peer: SimStream | undefined;
  #phase: Phase = { kind: "open" };
  #messages: ((message: object) => void) | undefined;
  #early: object[] = [];
  readonly #ends: ((error: Error | undefined) => void)[] = [];
  #notice: { readonly error: Error | undefined } | undefined;

  constructor(options: StreamOptions) {
    this.#options = options;
  }

  /** Joins both ends once the stream reached its server. */
  join(peer: SimStream): void {
    this.#peer = peer;
    peer.#peer = this;
  }

  send(message: object): boolean {
    if (this.#phase.kind === "over" || this.#phase.kind === "ended-here" || this.#options.owner.isDead) return true;
    const bytes = this.#options.encode(message);
    this.#options.outgoing.send("message", bytes, () => this.#peer?.receive(bytes));
    return this.#options.outgoing.hasRoom;
  }

  onMessage(listener: (message: object) => void): void {
    this.#messages = listener;
    const early = this.#early;
    this.#early = [];
    for (const message of early) listener(message);
  }

  onDrain(listener: () => void): void {
    this.#options.outgoing.onDrained(listener);
  }

  onEnd(listener: (error: Error | undefined) => void): void {
    if (this.#notice === undefined) this.#ends.push(listener);
    else listener(this.#notice.error);
  }

  end(error?: Error): void {
    const { owner, outgoing, side } = this.#options;
    const isCancelling = side === "client" && error !== undefined;
    if (this.#phase.kind === "over" || (this.#phase.kind === "ended-here" && !isCancelling) || owner.isDead) return;
    if (side === "client" && error === undefined) {
      this.#phase = { kind: "ended-here" };
      outgoing.send("half-close", NO_BYTES, () => this.#peer?.peerEnded());
      return;
    }
    const cancelled = new ConcordError("CANCELLED", "the stream was cancelled");
    const bytes = side === "client" ? encodeError(cancelled) : error === undefined ? NO_BYTES : encodeError(error);
    outgoing.send(error === undefined ? "end" : "end with error", bytes, () => this.#peer?.peerClosed(bytes));
    this.#over(error);
  }

  /** The other side's message arrived at this host. */
  receive(bytes: Uint8Array): void {
    const { owner, incoming, decode } = this.#options;
    owner.run(() => {
      if (this.#peer !== undefined) incoming.consumed(this.#peer.#options.owner, bytes.length);
      if (this.#phase.kind === "over" || this.#phase.kind === "peer-ended") return;
      const message = this.#decoded(decode, bytes);
      if (message === undefined) return;
      if (this.#messages === undefined) this.#early.push(message);
      else this.#messages(message);
    }, bytes.length);
  }

  peerEnded(): void {
    this.#options.owner.run(() => {
      switch (this.#phase.kind) {
        case "open":
          this.#phase = { kind: "peer-ended" };
          this.#announce(undefined);
          return;
        case "ended-here":
        case "peer-ended":
        case "over":
          return;
        default:
          unreachable(this.#phase);
      }
    });
  }

  peerClosed(bytes: Uint8Array): void {
    this.#options.owner.run(() => this.#over(bytes.length === 0 ? undefined : decodeError(bytes)));
  }

  /** The connection broke. Runs inside the owner. */
  lost(error: ConcordError): void {
    this.#over(this.#options.side === "client" ? error : new ConcordError("CANCELLED", "the client went away"));
  }

  #decoded(decode: (bytes: Uint8Array) => object, bytes: Uint8Array): object | undefined {
    try {
      return decode(bytes);
    } catch (thrown) {
      this.#options.undecodable(thrown);
      return undefined;
    }
  }

  #over(error: Error | undefined): void {
    if (this.#phase.kind === "over") return;
    this.#phase = { kind: "over" };
    this.#options.closed();
    this.#announce(error);
  }

  /** Tells the listeners once, whatever came first. */
  #announce(error: Error | undefined): void {
    if (this.#notice !== undefined) return;
    this.#notice = { error };
    for (const listener of this.#ends) listener(error);
  }
}

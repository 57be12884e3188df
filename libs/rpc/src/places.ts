/** Places of calls, sessions and streams: their number is bounded, and shared by callers, addresses and connections. */
import {
  addressOwner,
  assert,
  ConcordError,
  NestedShares,
  type Admission,
  type CallContext,
  type MessageStream,
  type Metrics,
} from "@concord/runtime";
import type { Caller } from "./auth.ts";
import { publicError } from "./status.ts";

/** Whose share a call draws from, on two levels. */
export interface ShareOwner {
  /** The name of the caller; of one without a name its role and its address (of IPv6: its /64 network). */
  readonly name: string;
  readonly connection: string;
}

export interface CallOwner extends ShareOwner {
  /** Role, or role/name: what a caller began belongs to it over every connection and from every address. */
  readonly identity: string;
}

export function callOwner({ role, name }: Caller, peer: string): CallOwner {
  const connection = peer;
  if (name !== undefined) return { name, connection, identity: `${role}/${name}` };
  return { name: `${role}@${addressOwner(hostOf(peer))}`, connection, identity: role };
}

/** The address of a peer without its port. */
export function hostOf(peer: string): string {
  const at = peer.lastIndexOf(":");
  return at === -1 ? peer : peer.slice(0, at);
}

export interface PlacesOptions {
  readonly service: string;
  readonly metrics: Metrics;
  /** The name of the limit, and what it counts. */
  readonly limit: string;
  readonly what: string;
  readonly max: number;
}

export class Places {
  readonly #options: PlacesOptions;
  readonly #shares: NestedShares;

  constructor(options: PlacesOptions) {
    this.#options = options;
    this.#shares = new NestedShares(options.max);
  }

  get used(): number {
    return this.#shares.used;
  }

  /** OVERLOADED: there is no place, or the caller has its share. */
  take({ name, connection }: CallOwner): ConcordError | undefined {
    if (this.#shares.take(name, connection, 1)) return undefined;
    const { service, metrics, limit, what, max } = this.#options;
    metrics.count("rpc_server_refused_total", 1, { reason: limit });
    const text = `${service} has ${this.used} ${what}, and this caller its share of them: repeat it later, or wait for the answers to others`;
    return new ConcordError("OVERLOADED", text, { metadata: { limit, value: String(max) } });
  }

  leave({ name, connection }: CallOwner): void {
    this.#shares.giveBack(name, connection, 1);
  }

  /** As `take`, but throws; the place is left by `Place`. */
  enter(caller: Caller, peer: string): Place {
    const owner = callOwner(caller, peer);
    const refusal = this.take(owner);
    if (refusal !== undefined) throw refusal;
    return new Place(caller, owner, () => this.leave(owner));
  }
}

/** A place that was taken before the handler of the call begins. */
export class Place implements Admission {
  readonly caller: Caller;
  readonly callOwner: CallOwner;
  readonly #leave: () => void;
  #phase: "waiting" | "begun" | "left" = "waiting";

  constructor(caller: Caller, owner: CallOwner, leave: () => void) {
    this.caller = caller;
    this.callOwner = owner;
    this.#leave = leave;
  }

  get owner(): string {
    return this.callOwner.name;
  }

  /** The handler begins: the place is left when it settles. */
  begin(): void {
    this.#phase = "begun";
  }

  abandon(): void {
    if (this.#phase === "waiting") this.leave();
  }

  leave(): void {
    if (this.#phase === "left") return;
    this.#phase = "left";
    this.#leave();
  }
}

type Admit = (context: CallContext) => Place;

/** The place that the transport took for the call, or one that is taken now. */
export function begun(context: CallContext, admit: Admit): Place {
  const { admission = admit(context) } = context;
  assert(admission instanceof Place, "what `admit` returned is handed to `handle`");
  admission.begin();
  return admission;
}

/** Undefined: the stream was refused and is over. */
export function begunStream(stream: MessageStream, context: CallContext, admit: Admit): Place | undefined {
  try {
    return begun(context, admit);
  } catch (thrown) {
    stream.end(publicError(thrown));
    return undefined;
  }
}

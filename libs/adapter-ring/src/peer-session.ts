import { loadService } from "@concord/protos";
import { bearer, SessionClient } from "@concord/rpc";
import {
  toConcordError,
  type Channel,
  type Clock,
  type Log,
  type Metadata,
  type Metrics,
  type Timer,
  type Transport,
} from "@concord/runtime";
import { PROBE_INTERVAL_MS, PROBE_TIMEOUT_MS, SILENCE_MS_MIN } from "./limits.ts";

export interface PeerSessionOptions {
  /** The peer's node name. */
  readonly name: string;
  readonly address: string;
  readonly transport: Transport;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly peerToken: string | undefined;
  /** This node's name and the ring as it is configured here. */
  readonly self: string;
  readonly members: readonly string[];
}

export interface PeerHello {
  readonly node: string;
  readonly formed: boolean;
  readonly members: readonly string[];
  /** The peer remembers that our store was part of the ring. */
  readonly knowsCaller: boolean;
}

export interface StoreEntry {
  readonly key: Uint8Array;
  readonly value: Uint8Array;
}

export interface CopyPage {
  readonly entries: readonly StoreEntry[];
  readonly done: boolean;
  readonly lastKey: Uint8Array;
}

type Contact =
  | { readonly kind: "unknown" }
  | { readonly kind: "reachable" }
  /** The last call was lost; a probe runs until one gets through. */
  | { readonly kind: "lost"; readonly probe: Timer | undefined }
  | { readonly kind: "closed" };

const METHODS = loadService("concord.storage.v1.ReplicaService");

/** The connection to one peer's ReplicaService: one multiplexed session for the hot calls, unary calls for the rest. */
export class PeerSession {
  readonly name: string;
  readonly #options: PeerSessionOptions;
  readonly #channel: Channel;
  readonly #metadata: Metadata;
  readonly #session: SessionClient;
  readonly #labels: Readonly<Record<string, string>>;
  #contact: Contact = { kind: "unknown" };

  constructor(options: PeerSessionOptions) {
    this.name = options.name;
    this.#options = options;
    this.#labels = Object.freeze({ peer: options.name });
    this.#channel = options.transport.connect(options.address);
    this.#metadata = bearer(options.peerToken);
    this.#session = new SessionClient({
      channel: this.#channel,
      method: METHODS["Session"]!,
      clock: options.clock,
      metadata: this.#metadata,
    });
  }

  /** False: the last contact failed, and no probe got through since. */
  get reachable(): boolean {
    return this.#contact.kind !== "lost" && this.#contact.kind !== "closed";
  }

  /** One operation of the session, by the name of its oneof case. */
  async call<Response extends object>(operation: string, request: object, timeoutMs: number): Promise<Response> {
    try {
      const response = await this.#session.call<Response>(operation, request, { timeoutMs });
      this.#found();
      return response;
    } catch (thrown) {
      const { code } = toConcordError(thrown);
      // A call in a hurry says nothing about the peer: one client's short deadlines must not stop the others' writes.
      const isSilent = code === "DEADLINE_EXCEEDED" && timeoutMs >= SILENCE_MS_MIN;
      if (code === "CONNECTION_LOST" || isSilent) this.#lost();
      throw thrown;
    }
  }

  /** `formed`: our store is part of the ring; the peer remembers it before it answers (TXR4). */
  async hello(timeoutMs: number, formed = false): Promise<PeerHello> {
    const request = { node: this.#options.self, members: this.#options.members, formed };
    const response = await this.#unary<PeerHello>("Hello", request, timeoutMs);
    this.#found();
    return response;
  }

  /** One page of the peer's store after `afterKey`; empty = from the start. */
  copy(afterKey: Uint8Array, limit: number, timeoutMs: number): Promise<CopyPage> {
    return this.#unary<CopyPage>("Copy", { afterKey, limit }, timeoutMs);
  }

  close(): void {
    if (this.#contact.kind === "lost") this.#contact.probe?.cancel();
    this.#contact = { kind: "closed" };
    this.#session.close();
    this.#channel.close();
  }

  async #unary<Response>(method: string, request: object, timeoutMs: number): Promise<Response> {
    return (await this.#channel.unary(METHODS[method]!, request, { timeoutMs, metadata: this.#metadata })) as Response;
  }

  #found(): void {
    if (this.#contact.kind === "reachable" || this.#contact.kind === "closed") return;
    if (this.#contact.kind === "lost") {
      this.#contact.probe?.cancel();
      this.#options.log.info("peer is back", { peer: this.name });
    }
    this.#contact = { kind: "reachable" };
    this.#options.metrics.gauge("ring_peer_reachable", 1, this.#labels);
  }

  #lost(): void {
    if (this.#contact.kind === "lost" || this.#contact.kind === "closed") return;
    this.#options.log.warn("peer is not reachable", { peer: this.name, address: this.#options.address });
    this.#contact = { kind: "lost", probe: undefined };
    this.#options.metrics.gauge("ring_peer_reachable", 0, this.#labels);
    this.#probe();
  }

  #probe(): void {
    this.hello(PROBE_TIMEOUT_MS).then(
      () => undefined,
      () => {
        if (this.#contact.kind !== "lost") return;
        this.#contact = { kind: "lost", probe: this.#options.clock.setTimer(PROBE_INTERVAL_MS, () => this.#probe()) };
      },
    );
  }
}

import type { ExchangeTime } from "@concord/quorum";
import { ReplicaService, type CopyResponse, type HelloResponse, type ReadPartResponse } from "@concord/protos-storage";
import { bearer, callUnary, SessionClient, type CallRequest, type CallResponse, type OperationName } from "@concord/rpc";
import {
  ConcordError,
  timestampUsOf,
  toConcordError,
  type Channel,
  type Clock,
  type Log,
  type Metadata,
  type Metrics,
  type Span,
  type Timer,
  type TimestampUs,
  type Transport,
} from "@concord/runtime";
import { PROBE_INTERVAL_MS, PROBE_TIMEOUT_MS, RING_PROTOCOL, RING_PROTOCOL_KEY, SILENCE_MS_MIN } from "./limits.ts";
import { checkProtocol } from "./protocol.ts";

export interface PeerSessionOptions {
  /** The peer's node name. */
  readonly name: string;
  readonly address: string;
  readonly transport: Transport;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly peerToken: string | undefined;
  /** Of this node's store (TXR4). */
  readonly incarnation: string;
  /** This node's name and the ring as it is configured here. */
  readonly self: string;
  readonly members: readonly string[];
  /** Of this node's plain writes. */
  readonly writeClock: {
    /** No timestamp that this node drew is above it. */
    readonly markUs: TimestampUs;
    /** The same of the peer. */
    saw(timestampUs: TimestampUs): void;
  };
}

export interface PeerCallOptions {
  readonly span?: Span | undefined;
  readonly time?: Pick<ExchangeTime, "leftMs" | "longestMs"> | undefined;
}

type Contact =
  | { readonly kind: "unknown" }
  | { readonly kind: "reachable" }
  /** A call of some patience expired: the peer is slow or gone, and a probe finds out. */
  | { readonly kind: "suspected" }
  /** The connection broke or a probe failed; a probe runs until one gets through. */
  | { readonly kind: "lost"; readonly probe: Timer | undefined }
  | { readonly kind: "closed" };

/** The connection to one peer's ReplicaService: one multiplexed session for the hot calls, unary calls for the rest. */
export class PeerSession {
  readonly name: string;
  readonly clock: Clock;
  /** The peer's newest collection of tombstones, as it named it last; undefined: not yet. Copies that are read later may be sent to it. */
  collection: string | undefined;
  readonly #options: PeerSessionOptions;
  readonly #channel: Channel;
  readonly #metadata: Metadata;
  readonly #session: SessionClient<ReplicaService>;
  readonly #labels: Readonly<Record<string, string>>;
  #contact: Contact = { kind: "unknown" };
  #saidRefusal: string | undefined;
  /** Has the peer named our version? Asked again after each loss, since another process may answer then. */
  #greeting: { readonly kind: "due" } | { readonly kind: "asked"; readonly answer: Promise<void> } | { readonly kind: "done" } = {
    kind: "due",
  };

  constructor(options: PeerSessionOptions) {
    this.name = options.name;
    this.clock = options.clock;
    this.#options = options;
    this.#labels = Object.freeze({ peer: options.name });
    this.#channel = options.transport.connect(options.address);
    this.#metadata = { ...bearer(options.peerToken), [RING_PROTOCOL_KEY]: String(RING_PROTOCOL) };
    this.#session = new SessionClient({
      channel: this.#channel,
      contract: ReplicaService,
      clock: options.clock,
      metadata: this.#metadata,
      // A peer that died is known to be gone before it is needed.
      onLost: () => this.#lost(),
    });
  }

  /** False: the connection broke or a probe failed, and nothing got through since. A slow peer is reachable. */
  get reachable(): boolean {
    return this.#contact.kind !== "lost" && this.#contact.kind !== "closed";
  }

  /** One operation of the session, by the name of its oneof case. `time`: it may take longer than `timeoutMs`, while some is left of this. */
  async call<O extends OperationName<ReplicaService>>(
    operation: O,
    request: CallRequest<ReplicaService, O>,
    timeoutMs: number,
    { span, time }: PeerCallOptions = {},
  ): Promise<CallResponse<ReplicaService, O>> {
    try {
      if (this.#greeting.kind !== "done") await this.#greet(timeoutMs);
      const response = await this.#session.call(operation, request, {
        timeoutMs: Math.max(timeoutMs, time?.longestMs ?? 0),
        span,
        patience: time,
      });
      this.#found();
      return response;
    } catch (thrown) {
      const { code } = toConcordError(thrown);
      // A call in a hurry says nothing about the peer: one client's short deadlines must not stop the others' writes.
      const isSilent = code === "DEADLINE_EXCEEDED" && timeoutMs >= SILENCE_MS_MIN;
      if (code === "CONNECTION_LOST") this.#lost();
      else if (isSilent) this.#suspect();
      throw thrown;
    }
  }

  /** `formed`: our store is part of the ring; the peer remembers it before it answers (TXR4). PERMISSION_DENIED: another version. */
  async hello(timeoutMs: number, formed = false): Promise<HelloResponse> {
    const { self, members, incarnation, writeClock } = this.#options;
    const request = { node: self, members, formed, protocol: RING_PROTOCOL, incarnation, writeClockUs: writeClock.markUs };
    try {
      const response = await callUnary(this.#channel, ReplicaService.methods.Hello, request, { timeoutMs, metadata: this.#metadata });
      checkProtocol(this.name, response.protocol, self);
      writeClock.saw(timestampUsOf(response.writeClockUs));
      this.#found();
      return response;
    } catch (thrown) {
      this.#sayRefused(toConcordError(thrown));
      throw thrown;
    }
  }

  /** One page of the peer's store after `afterKey`; empty = from the start. `headersOnly`: of its group logs' headers. */
  copy(afterKey: Uint8Array, limit: number, timeoutMs: number, headersOnly = false): Promise<CopyResponse> {
    const request = { afterKey, limit, headersOnly };
    return callUnary(this.#channel, ReplicaService.methods.Copy, request, { timeoutMs, metadata: this.#metadata });
  }

  /** A part of a stored value, see `readLarge`. */
  readPart(key: Uint8Array, offset: number, timeoutMs: number): Promise<ReadPartResponse> {
    const options = { timeoutMs, metadata: this.#metadata };
    return callUnary(this.#channel, ReplicaService.methods.ReadPart, { key, offset: BigInt(offset) }, options);
  }

  /** The peer has no space for new data. */
  async isLow(timeoutMs: number): Promise<boolean> {
    const options = { timeoutMs, metadata: this.#metadata };
    return (await callUnary(this.#channel, ReplicaService.methods.Space, {}, options)).low;
  }

  close(): void {
    if (this.#contact.kind === "lost") this.#contact.probe?.cancel();
    this.#contact = { kind: "closed" };
    this.#session.close();
    this.#channel.close();
  }

  /** What fails here was never sent. */
  #greet(timeoutMs: number): Promise<void> {
    if (this.#greeting.kind === "asked") return this.#greeting.answer;
    const answer: Promise<void> = this.hello(Math.min(timeoutMs, PROBE_TIMEOUT_MS)).then(
      () => this.#answered(answer, { kind: "done" }),
      (thrown: unknown) => {
        this.#answered(answer, { kind: "due" });
        const { code, message, metadata } = toConcordError(thrown);
        throw new ConcordError(code, message, { applied: "no", metadata, cause: thrown });
      },
    );
    this.#greeting = { kind: "asked", answer };
    return answer;
  }

  #answered(answer: Promise<void>, next: { readonly kind: "done" | "due" }): void {
    if (this.#greeting.kind === "asked" && this.#greeting.answer === answer) this.#greeting = next;
  }

  /** The peer is there and does not take us, or we not it: an operator has to do something, so the log says what, once until it takes us. */
  #sayRefused({ code, message }: ConcordError): void {
    if ((code !== "PERMISSION_DENIED" && code !== "UNAUTHENTICATED") || this.#saidRefusal === message) return;
    this.#saidRefusal = message;
    this.#options.log.error("refused at the handshake", { peer: this.name, code, reason: message });
  }

  #found(): void {
    this.#saidRefusal = undefined;
    if (this.#contact.kind === "reachable" || this.#contact.kind === "closed") return;
    if (this.#contact.kind === "lost") {
      this.#contact.probe?.cancel();
      this.#options.log.info("peer is back", { peer: this.name });
    }
    this.#contact = { kind: "reachable" };
    this.#options.metrics.gauge("ring_peer_reachable", 1, this.#labels);
  }

  /** An expired call may be one that takes long at a busy peer: only a probe, which is no work, tells that it is gone. */
  #suspect(): void {
    if (this.#contact.kind !== "reachable" && this.#contact.kind !== "unknown") return;
    this.#contact = { kind: "suspected" };
    this.hello(PROBE_TIMEOUT_MS).catch(() => {
      if (this.#contact.kind === "suspected") this.#lost();
    });
  }

  #lost(): void {
    this.#greeting = { kind: "due" };
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

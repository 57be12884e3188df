import type { ServiceContract } from "@concord/protos";
import { bearer, SessionClient, type CallRequest, type CallResponse, type OperationName } from "@concord/rpc";
import {
  assert,
  ConcordError,
  toConcordError,
  TRACEPARENT_KEY,
  UNTRACED,
  type Channel,
  type Clock,
  type ErrorCode,
  type Span,
  type Transport,
} from "@concord/runtime";
import { HOME_RETRY_MS } from "./limits.ts";

export interface StorageProxyAddress {
  readonly name: string;
  readonly address: string;
  readonly datacenter: string;
}

export interface StorageProxyOptions {
  /** At least one. */
  readonly proxies: readonly StorageProxyAddress[];
  /** Proxies of this datacenter are asked first. */
  readonly datacenter: string;
  readonly transport: Transport;
  readonly clock: Clock;
  readonly coordinatorToken?: string | undefined;
}

/** One open channel per proxy, in the order in which they are asked. */
export class ProxyChannels {
  readonly options: StorageProxyOptions;
  readonly channels: readonly Channel[];

  constructor(options: StorageProxyOptions) {
    assert(options.proxies.length > 0, "a coordinator knows at least one storage-proxy");
    this.options = options;
    const near = options.proxies.filter((proxy) => proxy.datacenter === options.datacenter);
    const far = options.proxies.filter((proxy) => proxy.datacenter !== options.datacenter);
    this.channels = [...near, ...far].map((proxy) => options.transport.connect(proxy.address));
  }

  close(): void {
    for (const channel of this.channels) channel.close();
  }
}

/** Another proxy may do better: this one is not there, not ready, going, or does not answer in its share of the time. */
const ELSEWHERE: ReadonlySet<ErrorCode> = new Set([
  "CONNECTION_LOST",
  "STARTING",
  "DRAINING",
  "STORE_FAILED",
  "DEADLINE_EXCEEDED",
  "OVERLOADED",
]);

interface TurnOptions {
  readonly timeoutMs: number;
  /** Of one proxy. */
  readonly shareMs: number;
  readonly isElsewhere: (error: ConcordError) => boolean;
  readonly span?: Span | undefined;
}

/**
 * Calls of one service over one session per proxy. Every call made by `call` may be sent twice (I1): the next proxy gets the identical
 * request when one fails to answer. Stays with the proxy that works; every HOME_RETRY_MS a copy of a call
 * probes the preferred proxy in the background.
 */
export class ProxyCalls<S extends ServiceContract<object>> {
  readonly #clock: Clock;
  readonly #sessions: readonly SessionClient<S>[];
  #current = 0;
  #homeAgainAtMs = 0;

  constructor({ channels, options }: ProxyChannels, contract: S) {
    const { clock, coordinatorToken } = options;
    this.#clock = clock;
    // Its calls are part of its clients' traces, or of none.
    const metadata = { ...bearer(coordinatorToken), [TRACEPARENT_KEY]: UNTRACED };
    this.#sessions = channels.map((channel) => new SessionClient({ channel, contract, clock, metadata }));
  }

  /** Rejects with the last proxy's error when all failed; with the first that is not about the proxy itself. */
  async call<O extends OperationName<S>>(
    operation: O,
    request: CallRequest<S, O>,
    timeoutMs: number,
    span?: Span,
  ): Promise<CallResponse<S, O>> {
    const shareMs = Math.ceil(timeoutMs / this.#sessions.length);
    if (this.#current !== 0) this.#probePreferred(operation, request, shareMs);
    return this.#inTurn(operation, request, { timeoutMs, shareMs, isElsewhere: ({ code }) => ELSEWHERE.has(code), span });
  }

  /** Of what must not be carried out twice: another proxy gets it only when this one certainly has not carried it out. */
  callOnce<O extends OperationName<S>>(operation: O, request: CallRequest<S, O>, timeoutMs: number): Promise<CallResponse<S, O>> {
    const isElsewhere = ({ code, applied }: ConcordError): boolean => ELSEWHERE.has(code) && applied === "no";
    return this.#inTurn(operation, request, { timeoutMs, shareMs: timeoutMs, isElsewhere });
  }

  async #inTurn<O extends OperationName<S>>(operation: O, request: CallRequest<S, O>, options: TurnOptions): Promise<CallResponse<S, O>> {
    const { timeoutMs, shareMs, isElsewhere, span } = options;
    const deadlineAtMs = this.#clock.monotonicMs() + timeoutMs;
    const first = this.#current;
    let last: ConcordError | undefined;
    for (let tried = 0; tried < this.#sessions.length; tried += 1) {
      const at = (first + tried) % this.#sessions.length;
      const leftMs = deadlineAtMs - this.#clock.monotonicMs();
      if (leftMs <= 0) break;
      try {
        const response = await this.#sessions[at]!.call(operation, request, { timeoutMs: Math.min(leftMs, shareMs), span });
        if (tried > 0) this.#settleOn(at);
        return response;
      } catch (thrown) {
        last = toConcordError(thrown);
        if (!isElsewhere(last)) throw last;
      }
    }
    throw last ?? new ConcordError("DEADLINE_EXCEEDED", `no time is left for ${operation}`, { applied: "no" });
  }

  close(): void {
    for (const session of this.#sessions) session.close();
  }

  #probePreferred<O extends OperationName<S>>(operation: O, request: CallRequest<S, O>, timeoutMs: number): void {
    const nowMs = this.#clock.monotonicMs();
    if (nowMs < this.#homeAgainAtMs) return;
    this.#homeAgainAtMs = nowMs + HOME_RETRY_MS;
    this.#sessions[0]!.call(operation, request, { timeoutMs }).then(
      () => this.#settleOn(0),
      () => undefined,
    );
  }

  #settleOn(at: number): void {
    this.#current = at;
    this.#homeAgainAtMs = this.#clock.monotonicMs() + HOME_RETRY_MS;
  }
}

// How many bytes a second each tenant and each address may send or get at this gateway. A transfer is slowed, by what reads it not asking for more;
// it is refused only when each of its steps would wait too long.
import { assert, RotatingMap, sleep, type Clock, type Metrics } from "@concord/runtime";
import { S3Error } from "@concord/s3";
import { RATE_BURST_MS, RATE_STEP_BYTES, RATE_SWEEP_MIN, RATE_WAIT_MS_MAX } from "../limits.ts";
import type { S3Call } from "./call.ts";

const SECOND_MS = 1000;

/** Bytes a second; undefined: as many as it likes. */
type RateOf = (owner: string) => number | undefined;

export interface ByteRatesOptions {
  readonly direction: "up" | "down";
  readonly tenants: RateOf;
  /** Of each address. */
  readonly addressRate: number | undefined;
  /** Addresses that have one rate together, by their common name: those of one network. */
  readonly networkOf: (address: string) => string;
  readonly clock: Clock;
  readonly metrics: Metrics;
}

/** A running transfer. */
export interface Pacing {
  /** The same bytes, none before they may move. */
  chunks(source: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array>;
  /** Once, however it ended. */
  end(): void;
}

const UNPACED: Pacing = { chunks: (source) => source, end: () => undefined };

export class ByteRates {
  readonly #options: ByteRatesOptions;
  readonly #tenants: ByteShares;
  readonly #addresses: ByteShares;

  constructor(options: ByteRatesOptions) {
    this.#options = options;
    const monotonicMs = (): number => options.clock.monotonicMs();
    this.#tenants = new ByteShares(options.tenants, monotonicMs);
    this.#addresses = new ByteShares(() => options.addressRate, monotonicMs);
  }

  /** SlowDown when so many transfers run that a step of this one would wait for longer than RATE_WAIT_MS_MAX. */
  begin({ tenant, facts, request }: Pick<S3Call, "tenant" | "facts" | "request">, lengthBytes: number): Pacing {
    const stepBytes = Math.min(lengthBytes, RATE_STEP_BYTES);
    const ofTenant = this.#begun(this.#tenants.begin(tenant, stepBytes));
    const { addressRate, networkOf } = this.#options;
    // Which address it is takes reading headers of proxies.
    if (addressRate === undefined) return ofTenant === undefined ? UNPACED : this.#pacing([ofTenant], request.signal);
    const ofAddress = this.#addresses.begin(networkOf(facts()["aws:sourceip"] ?? ""), stepBytes);
    if (ofAddress.kind === "refused") ofTenant?.end();
    const both = [ofTenant, this.#begun(ofAddress)].filter((one) => one !== undefined);
    return both.length === 0 ? UNPACED : this.#pacing(both, request.signal);
  }

  async during<Result>(
    call: Parameters<ByteRates["begin"]>[0],
    bytes: number,
    action: (pacing: Pacing) => Promise<Result>,
  ): Promise<Result> {
    const pacing = this.begin(call, bytes);
    try {
      return await action(pacing);
    } finally {
      pacing.end();
    }
  }

  #begun(begun: Begun): Taking | undefined {
    if (begun.kind === "free") return undefined;
    if (begun.kind === "begun") return begun.taking;
    const { direction, metrics } = this.#options;
    metrics.count("s3_paced_refusals_total", 1, LABELS[direction]);
    const text = "So many bytes are on their way from or to this tenant or this address that more would wait too long.";
    throw new S3Error("SlowDown", text, { retryAfterSeconds: Math.ceil(begun.waitMs / SECOND_MS) });
  }

  #pacing(takings: readonly Taking[], signal: AbortSignal): Pacing {
    return {
      chunks: (source) => this.#paced(source, takings, signal),
      end: () => {
        for (const taking of takings) taking.end();
      },
    };
  }

  async *#paced(
    source: AsyncIterable<Uint8Array>,
    takings: readonly Taking[],
    signal: AbortSignal,
  ): AsyncGenerator<Uint8Array, void, void> {
    const { clock, metrics, direction } = this.#options;
    for await (const chunk of source) {
      for (let at = 0; at < chunk.length; at += RATE_STEP_BYTES) {
        const step = chunk.subarray(at, at + RATE_STEP_BYTES);
        const waitMs = Math.max(...takings.map((taking) => taking.take(step.length)));
        if (waitMs > 0) {
          metrics.count("s3_paced_seconds_total", waitMs / SECOND_MS, LABELS[direction]);
          await sleep(clock, waitMs, signal);
        }
        yield step;
      }
    }
  }
}

const LABELS = { up: { direction: "up" }, down: { direction: "down" } } as const;

/** The share of one owner. */
interface Share {
  /** When all that was taken is paid for: a bucket of tokens, told by the time at which it is full but for a burst. */
  paidMs: number;
  /** What the running transfers may take before one of them has waited: bounds how long the next one waits. */
  stepsBytes: number;
}

interface Taking {
  /** For how long these bytes have to wait. They count from now on. */
  take(bytes: number): number;
  end(): void;
}

type Begun =
  | { readonly kind: "free" }
  | { readonly kind: "refused"; readonly waitMs: number }
  | { readonly kind: "begun"; readonly taking: Taking };

/** Owners that have a rate and either run transfers or took bytes lately: others are forgotten. */
export class ByteShares {
  readonly #rateOf: RateOf;
  readonly #monotonicMs: () => number;
  readonly #shares = new RotatingMap<string, Share>();
  #sweepAt = RATE_SWEEP_MIN;

  constructor(rateOf: RateOf, monotonicMs: () => number) {
    this.#rateOf = rateOf;
    this.#monotonicMs = monotonicMs;
  }

  get size(): number {
    return this.#shares.size;
  }

  begin(owner: string, stepBytes: number): Begun {
    assert(stepBytes >= 0 && stepBytes <= RATE_STEP_BYTES, "a step is bounded");
    const rate = this.#rateOf(owner);
    if (rate === undefined) return { kind: "free" };
    const share = this.#shareOf(owner);
    const waitMs = ((share.stepsBytes + stepBytes) * SECOND_MS) / rate;
    if (share.stepsBytes > 0 && waitMs > RATE_WAIT_MS_MAX) return { kind: "refused", waitMs };
    share.stepsBytes += stepBytes;
    let isOver = false;
    const end = (): void => {
      assert(!isOver && share.stepsBytes >= stepBytes, "a transfer ends once");
      isOver = true;
      share.stepsBytes -= stepBytes;
    };
    return { kind: "begun", taking: { take: (bytes) => this.#take(owner, share, bytes), end } };
  }

  /** By the rate as it is now, so that another one counts for what is under way. */
  #take(owner: string, share: Share, bytes: number): number {
    const rate = this.#rateOf(owner);
    if (rate === undefined) return 0;
    const nowMs = this.#monotonicMs();
    share.paidMs = Math.max(share.paidMs, nowMs - RATE_BURST_MS) + (bytes * SECOND_MS) / rate;
    return Math.max(0, share.paidMs - nowMs);
  }

  #shareOf(owner: string): Share {
    let share = this.#shares.get(owner);
    if (share !== undefined) return share;
    if (this.#shares.size >= this.#sweepAt) this.#sweep();
    share = { paidMs: Number.NEGATIVE_INFINITY, stepsBytes: 0 };
    this.#shares.set(owner, share);
    return share;
  }

  /** What is idle and may burst again is as one that never was. */
  #sweep(): void {
    const fullMs = this.#monotonicMs() - RATE_BURST_MS;
    const idle = [...this.#shares].filter(([, { stepsBytes, paidMs }]) => stepsBytes === 0 && paidMs <= fullMs);
    for (const [owner] of idle) this.#shares.delete(owner);
    this.#sweepAt = Math.max(RATE_SWEEP_MIN, 2 * this.#shares.size);
  }
}

// How many requests a second each tenant may send to this gateway.
import { S3Error } from "@concord/s3";

const SECOND_MS = 1000;

export interface RequestRatesOptions {
  /** Requests a second; undefined: as many as it likes. */
  readonly rateOf: (tenant: string) => number | undefined;
  readonly monotonicMs: () => number;
}

interface Bucket {
  readonly tokens: number;
  readonly atMs: number;
}

/** A bucket of tokens per tenant with a rate: it holds a second's worth, so a pause is made up for once. */
export class RequestRates {
  readonly #options: RequestRatesOptions;
  readonly #buckets = new Map<string, Bucket>();

  constructor(options: RequestRatesOptions) {
    this.#options = options;
  }

  /** SlowDown when the tenant has used up its share. */
  take(tenant: string): void {
    const rate = this.#options.rateOf(tenant);
    if (rate === undefined) {
      this.#buckets.delete(tenant);
      return;
    }
    const atMs = this.#options.monotonicMs();
    const before = this.#buckets.get(tenant) ?? { tokens: rate, atMs };
    const tokens = Math.min(rate, before.tokens + ((atMs - before.atMs) * rate) / SECOND_MS);
    this.#buckets.set(tenant, { tokens: tokens < 1 ? tokens : tokens - 1, atMs });
    if (tokens < 1) throw new S3Error("SlowDown", "This tenant sends more requests than it may.", { retryAfterSeconds: 1 });
  }
}

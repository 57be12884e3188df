// How many uploads may run at once, and how much memory bodies on their way may take; requests over the limit get SlowDown immediately.
import { assert, FairShares, type Metrics } from "@concord/runtime";
import { S3Error } from "@concord/s3";

export interface TransferBudgetOptions {
  readonly kind: "uploads" | "downloads";
  /** Transfers at once. */
  readonly countMax: number;
  readonly bytesMax: number;
  /** The most memory of one transfer: a body moves in chunks. A smaller one counts with its own length. */
  readonly shareBytes: number;
  /** False: the only tenant may have all. Of several none can use everything up. */
  readonly isShared: boolean;
  readonly metrics: Metrics;
}

export class TransferBudget {
  readonly #options: TransferBudgetOptions;
  readonly #count: FairShares;
  readonly #bytes: FairShares;

  constructor(options: TransferBudgetOptions) {
    this.#options = options;
    this.#count = new FairShares(options.countMax, options.isShared);
    this.#bytes = new FairShares(options.bytesMax, options.isShared);
  }

  get inFlight(): number {
    return this.#count.used;
  }

  /** What ends the transfer, called once. SlowDown when there is no room. */
  begin(tenant: string, lengthBytes: number): () => void {
    const bytes = Math.min(lengthBytes, this.#options.shareBytes);
    if (!this.#count.take(tenant, 1)) throw this.#refusal();
    if (!this.#bytes.take(tenant, bytes)) {
      this.#count.giveBack(tenant, 1);
      throw this.#refusal();
    }
    this.#report();
    let isOver = false;
    return () => {
      assert(!isOver, "a transfer ends once");
      isOver = true;
      this.#count.giveBack(tenant, 1);
      this.#bytes.giveBack(tenant, bytes);
      this.#report();
    };
  }

  async during<Result>(tenant: string, lengthBytes: number, action: () => Promise<Result>): Promise<Result> {
    const end = this.begin(tenant, lengthBytes);
    try {
      return await action();
    } finally {
      end();
    }
  }

  #refusal(): S3Error {
    const { kind } = this.#options;
    const text = `Too many ${kind} of this tenant or of all run at the same time. Repeat the request when some have ended.`;
    return new S3Error("SlowDown", text, { retryAfterSeconds: 1 });
  }

  #report(): void {
    this.#options.metrics.gauge(`s3_${this.#options.kind}_in_flight`, this.#count.used);
  }
}

import type { Clock, Timer } from "@concord/runtime";
import type { ConcordClientError } from "./errors.ts";
import { TIMESTAMP_CORRECTION_MS } from "./limits.ts";

/**
 * This process's clock as the servers see it: ids and timestamps are made by it. It starts as the process's own and is corrected when a server refuses
 * what it made and says by how much that is off.
 */
export class ServerClock implements Clock {
  readonly #own: Clock;
  #correctionMs = 0;
  /** Monotonic. */
  #correctedUntilMs = Number.POSITIVE_INFINITY;

  constructor(own: Clock) {
    this.#own = own;
  }

  nowMs(): number {
    return this.#own.nowMs() + this.#correction();
  }

  nowUs(): bigint {
    return this.#own.nowUs() + BigInt(this.#correction()) * 1000n;
  }

  monotonicMs(): number {
    return this.#own.monotonicMs();
  }

  setTimer(delayMs: number, action: () => void): Timer {
    return this.#own.setTimer(delayMs, action);
  }

  defer(action: () => void): void {
    this.#own.defer(action);
  }

  /**
   * True: the server refused an id or timestamp, made at `madeAtMs` (monotonic), for its time, so one that is made now may be taken. The refusal names
   * how far it was ahead of the server's clock when it arrived. It may have waited on its way for as long as the call took: what that explains is no
   * error of the clock, the rest is corrected. What storage-proxies refuse as too far ahead may be an error of their clocks, and nothing is refused once
   * these are right: the own clock is tried again after a while.
   */
  learn(error: ConcordClientError, madeAtMs: number): boolean {
    const aheadMs = Number(error.metadata["aheadMs"] ?? Number.NaN);
    if (error.applied !== "no" || !REFUSALS.has(error.code) || !Number.isSafeInteger(aheadMs)) return false;
    this.#correctionMs = this.#correction();
    this.#correctedUntilMs =
      error.code === "TIMESTAMP_OUT_OF_RANGE" ? this.#own.monotonicMs() + TIMESTAMP_CORRECTION_MS : Number.POSITIVE_INFINITY;
    const waitedMs = Math.max(0, Math.ceil(this.#own.monotonicMs() - madeAtMs));
    if (aheadMs > 0) this.#correctionMs -= aheadMs;
    else if (aheadMs + waitedMs < 0) this.#correctionMs -= aheadMs + waitedMs;
    return true;
  }

  #correction(): number {
    return this.#own.monotonicMs() < this.#correctedUntilMs ? this.#correctionMs : 0;
  }
}

const REFUSALS: ReadonlySet<string> = new Set(["CLOCK_SKEW", "TRANSACTION_EXPIRED", "TIMESTAMP_OUT_OF_RANGE"]);

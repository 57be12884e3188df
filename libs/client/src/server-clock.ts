import type { Clock, Timer } from "@concord/runtime";
import type { ConcordClientError } from "./errors.ts";

/**
 * This process's clock as the servers see it: ids and timestamps are made by it. It starts as the process's own and is corrected when a server refuses
 * what it made and says by how much that is off.
 */
export class ServerClock implements Clock {
  readonly #own: Clock;
  #correctionMs = 0;

  constructor(own: Clock) {
    this.#own = own;
  }

  nowMs(): number {
    return this.#own.nowMs() + this.#correctionMs;
  }

  nowUs(): bigint {
    return this.#own.nowUs() + BigInt(this.#correctionMs) * 1000n;
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
   * error of the clock, the rest is corrected.
   */
  learn(error: ConcordClientError, madeAtMs: number): boolean {
    const aheadMs = Number(error.metadata["aheadMs"] ?? Number.NaN);
    if (error.applied !== "no" || !REFUSALS.has(error.code) || !Number.isSafeInteger(aheadMs)) return false;
    const waitedMs = Math.max(0, Math.ceil(this.#own.monotonicMs() - madeAtMs));
    if (aheadMs > 0) this.#correctionMs -= aheadMs;
    else if (aheadMs + waitedMs < 0) this.#correctionMs -= aheadMs + waitedMs;
    return true;
  }
}

const REFUSALS: ReadonlySet<string> = new Set(["CLOCK_SKEW", "TRANSACTION_EXPIRED", "TIMESTAMP_OUT_OF_RANGE"]);

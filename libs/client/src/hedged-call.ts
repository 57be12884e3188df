import { sleep, type Clock } from "@concord/runtime";
import { toClientError, withFacts } from "./client-error.ts";
import type { ConcordClientError } from "./errors.ts";
import { HEDGES_BURST_MAX, HEDGES_PER_CALL, HEDGES_PER_SECOND } from "./limits.ts";

/** How many second copies may be sent: a share of all calls and a few per second, so that slow servers do not get twice the load (TXD13). */
export class HedgeBudget {
  readonly #clock: Clock;
  #tokens = HEDGES_BURST_MAX;
  #filledAtMs: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#filledAtMs = clock.monotonicMs();
  }

  /** A call was begun. */
  called(): void {
    this.#tokens = Math.min(HEDGES_BURST_MAX, this.#tokens + HEDGES_PER_CALL);
  }

  /** Whether one more copy may be sent now; it then counts. */
  take(): boolean {
    const nowMs = this.#clock.monotonicMs();
    this.#tokens = Math.min(HEDGES_BURST_MAX, this.#tokens + ((nowMs - this.#filledAtMs) / 1000) * HEDGES_PER_SECOND);
    this.#filledAtMs = nowMs;
    if (this.#tokens < 1) return false;
    this.#tokens -= 1;
    return true;
  }
}

export interface HedgedCall<T> {
  readonly clock: Clock;
  readonly budget: HedgeBudget;
  /** In the order to ask them; an address that comes twice is asked again after the pause its error names. */
  readonly addresses: readonly string[];
  /** Asked too when there is no answer after this long, while the budget lasts; 0 = never. */
  readonly delayMs: number;
  readonly ask: (address: string, signal: AbortSignal) => Promise<T>;
  /** Whether a further try is right after this error. */
  readonly again: (error: ConcordClientError) => boolean;
  /** The error follows from the request alone, so that every copy of it is refused: nothing has happened. */
  readonly refusesRequest?: (error: ConcordClientError) => boolean;
  /** A copy was sent elsewhere, and its answer came first. */
  readonly slow: (address: string) => void;
}

/**
 * Asks one address after the other until one answers: the next when a try failed, or when it is slow. The first answer counts, the others are
 * cancelled. An error that ends it has `applied: unknown` when any try may have had an effect (I6); not one that refuses the request itself.
 */
export function hedged<T>(call: HedgedCall<T>): Promise<T> {
  call.budget.called();
  return new Promise<T>((resolve, reject) => new Tries(call, resolve, reject).next());
}

class Tries<T> {
  readonly #call: HedgedCall<T>;
  readonly #resolve: (answer: T) => void;
  readonly #reject: (error: ConcordClientError) => void;
  readonly #abort = new AbortController();
  readonly #inFlight = new Set<string>();
  #begun = 0;
  #mayHaveHappened = false;
  #hedge: { cancel(): void } | undefined;

  constructor(call: HedgedCall<T>, resolve: (answer: T) => void, reject: (error: ConcordClientError) => void) {
    this.#call = call;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  next(): void {
    if (this.#abort.signal.aborted) return;
    const { addresses, ask } = this.#call;
    const address = addresses[this.#begun]!;
    this.#begun += 1;
    this.#inFlight.add(address);
    this.#hedge?.cancel();
    this.#hedgeLater();
    ask(address, this.#abort.signal).then(
      (answer) => {
        this.#inFlight.delete(address);
        for (const slow of this.#inFlight) this.#call.slow(slow);
        this.#end(() => this.#resolve(answer));
      },
      (thrown: unknown) => {
        this.#inFlight.delete(address);
        if (!this.#abort.signal.aborted) this.#failed(address, toClientError(thrown));
      },
    );
  }

  #hedgeLater(): void {
    const { clock, delayMs, addresses, budget } = this.#call;
    const following = addresses[this.#begun];
    if (delayMs === 0 || following === undefined || this.#inFlight.has(following)) return;
    this.#hedge = clock.setTimer(delayMs, () => (budget.take() ? this.next() : this.#hedgeLater()));
  }

  #failed(address: string, error: ConcordClientError): void {
    const { addresses, again, clock } = this.#call;
    this.#mayHaveHappened ||= error.applied !== "no";
    if (!again(error)) return this.#fail(error);
    const following = addresses[this.#begun];
    if (following === undefined) {
      if (this.#inFlight.size === 0) this.#fail(error);
      return;
    }
    if (following !== address) return this.next();
    void sleep(clock, error.retryAfterMs ?? 0, this.#abort.signal).then(() => this.next());
  }

  #fail(error: ConcordClientError): void {
    // What the last try says of itself is not the whole truth (I6); a copy in flight may yet take effect.
    const isUnknown = this.#call.refusesRequest?.(error) !== true && (this.#mayHaveHappened || this.#inFlight.size > 0);
    this.#end(() => this.#reject(isUnknown ? withFacts(error, { applied: "unknown" }) : error));
  }

  #end(settle: () => void): void {
    this.#hedge?.cancel();
    settle();
    this.#abort.abort();
  }
}

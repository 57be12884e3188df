import type { StartResponse } from "@concord/protos-txn";
import type { Clock, Timer } from "@concord/runtime";
import { toClientError } from "./client-error.ts";
import type { ConcordClientError } from "./errors.ts";
import type { HedgeBudget } from "./hedged-call.ts";
import { QUEUE_AGAIN_MS } from "./limits.ts";

/** A transaction's start at its master, and how it is queued elsewhere. */
export interface Opening {
  readonly clock: Clock;
  /** Of starts that are queued because their master is slow: in an overload all are. */
  readonly budget: HedgeBudget;
  /** On its way at the master. */
  readonly first: Promise<StartResponse>;
  readonly master: string;
  /** All coordinators that may serve the group. */
  readonly ranks: readonly string[];
  /** The start is queued at the others when the master has not answered after this long, while the budget lasts; 0 = at once, always. */
  readonly delayMs: number;
  /** Answers when the coordinator serves the group; nothing is open there then (TXD8). */
  readonly queue: (address: string) => Promise<StartResponse>;
  readonly withdraw: (address: string) => void;
  /** Opens at the coordinator that answered a queued start. */
  readonly moveTo: (address: string, answer: StartResponse) => Promise<StartResponse>;
}

/**
 * TX18, TX19: opens at the master, and waits at the standbys too when that one does not answer or is no master any more. The first answer counts; the
 * others are withdrawn. Rejects with the master's error when none of the standbys serves the group in time.
 */
export function open(opening: Opening): Promise<StartResponse> {
  return new Promise<StartResponse>((resolve, reject) => void new QueuedOpening(opening, resolve, reject));
}

class QueuedOpening {
  readonly #opening: Opening;
  readonly #resolve: (answer: StartResponse | Promise<StartResponse>) => void;
  readonly #reject: (error: ConcordClientError) => void;
  readonly #waiting = new Set<string>();
  #timer: Timer | undefined;
  #refused: ConcordClientError | undefined;
  #isOver = false;

  constructor(
    opening: Opening,
    resolve: (answer: StartResponse | Promise<StartResponse>) => void,
    reject: (error: ConcordClientError) => void,
  ) {
    this.#opening = opening;
    this.#resolve = resolve;
    this.#reject = reject;
    const { first, delayMs, budget } = opening;
    budget.called();
    if (delayMs === 0) this.#queueAtAll();
    else this.#queueLater();
    first.then(
      (answer) => this.#end(() => this.#resolve(answer)),
      (thrown: unknown) => this.#failed(toClientError(thrown)),
    );
  }

  #queueLater(): void {
    const { clock, delayMs, budget } = this.#opening;
    this.#timer = clock.setTimer(delayMs, () => (budget.take() ? this.#queueAtAll() : this.#queueLater()));
  }

  #queueAtAll(): void {
    const { ranks, master } = this.#opening;
    // The coordinator itself is about to serve, or it still does and only the connection broke.
    const isMasterNext = this.#refused?.code === "STARTING" || this.#refused?.code === "CONNECTION_LOST";
    for (const address of ranks) if (address !== master || isMasterNext) this.#wait(address);
  }

  #wait(address: string): void {
    if (this.#waiting.has(address)) return;
    this.#waiting.add(address);
    this.#opening.queue(address).then(
      (answer) => {
        this.#waiting.delete(address);
        this.#end(() => this.#resolve(this.#opening.moveTo(address, answer)));
      },
      (thrown: unknown) => {
        this.#waiting.delete(address);
        if (this.#refused !== undefined) this.#rejectIfAlone(this.#refused);
        if (this.#isOver || !NOT_YET.has(toClientError(thrown).code)) return;
        this.#opening.clock.setTimer(QUEUE_AGAIN_MS, () => this.#waitAgain(address));
      },
    );
  }

  /** A group that is handed over may go to a coordinator that the client lost when it stopped, and that has just started. */
  #waitAgain(address: string): void {
    if (!this.#isOver && this.#waiting.size > 0) this.#wait(address);
  }

  #failed(error: ConcordClientError): void {
    if (this.#isOver) return;
    this.#refused = error;
    const named = error.metadata["address"];
    if (!ELSEWHERE.has(error.code)) return this.#end(() => this.#reject(error));
    // Whom it names first; the others after the delay, as the named one may be gone too.
    if (named !== undefined) return this.#wait(named);
    this.#timer?.cancel();
    this.#queueAtAll();
    this.#rejectIfAlone(error);
  }

  #rejectIfAlone(error: ConcordClientError): void {
    if (this.#waiting.size === 0) this.#end(() => this.#reject(error));
  }

  #end(settle: () => void): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#timer?.cancel();
    settle();
    for (const address of this.#waiting) this.#opening.withdraw(address);
  }
}

/** The coordinator serves the group no longer, or not yet: one of its ranks will. */
const ELSEWHERE: ReadonlySet<string> = new Set(["NOT_MASTER", "STARTING", "DRAINING", "CONNECTION_LOST"]);

/** Nothing there answers, or not yet. */
const NOT_YET: ReadonlySet<string> = new Set(["CONNECTION_LOST", "STARTING"]);

import { backoff, type BackoffLimits } from "./backoff.ts";
import type { Clock } from "./clock.ts";
import { ConcordError, ERRORS, toConcordError } from "./errors.ts";
import type { Log } from "./observe.ts";

/** Pauses between the tries of one step: short at first, as the others of a cluster usually start at the same time. */
export const START_PAUSES: BackoffLimits = { initialMs: 20, maxMs: 1_000 };
/** A step that waits is logged after the first time, then after twice as long each time, up to the second. */
export const WAIT_LOG_MS_MIN = 1_000;
export const WAIT_LOG_MS_MAX = 60_000;

export interface UntilOptions<Answer> {
  /** Ends the wait: the program stops. */
  readonly signal: AbortSignal;
  /** Whether a further try may succeed after this error; every retryable error when not given. */
  readonly again?: (thrown: unknown) => boolean;
  /** The signal ends a try, too; a later answer of it is passed to this. When not given, the try under way is waited for. */
  readonly abandon?: (answer: Answer) => void;
}

interface Wait {
  readonly what: string;
  reason: string;
}

/**
 * Steps of a program's start that wait for other programs. A step is repeated until it succeeds, fails for good or the program stops: that another
 * program is slow ends no start. What is waited for is logged at growing intervals, and is the text of /readyz.
 */
export class StartWaits {
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #waits = new Set<Wait>();

  constructor({ clock, log }: { readonly clock: Clock; readonly log: Log }) {
    this.#clock = clock;
    this.#log = log;
  }

  /** What is waited for now, each with the last failure, or how far it is. */
  get current(): readonly string[] {
    return [...this.#waits].map(({ what, reason }) => (reason === "" ? what : `${what} (${reason})`));
  }

  /** The step's answer. Rejects with the step's error when no try after it can succeed, with DRAINING once the signal is aborted. */
  until<Answer>(what: string, step: () => Promise<Answer>, options: UntilOptions<Answer>): Promise<Answer> {
    const { signal, again = isRetryable, abandon } = options;
    return this.during(what, async (failed) => {
      const pauses = backoff(this.#clock, START_PAUSES, signal);
      while (!signal.aborted) {
        try {
          return await (abandon === undefined ? step() : unlessAborted(step(), signal, abandon));
        } catch (thrown) {
          if (signal.aborted) break;
          if (!again(thrown)) throw thrown;
          failed(thrown);
        }
        await pauses.pause();
      }
      throw new ConcordError("DRAINING", `stopped while the start waited for ${what}`, { applied: "no" });
    });
  }

  /** A step that repeats itself: it reports its failures, and what it is about (`doing`). */
  async during<Answer>(
    what: string,
    step: (failed: (thrown: unknown) => void, doing: (text: string) => void) => Promise<Answer>,
  ): Promise<Answer> {
    const wait: Wait = { what, reason: "" };
    this.#waits.add(wait);
    const startedAtMs = this.#clock.monotonicMs();
    let delayMs = WAIT_LOG_MS_MIN;
    const report = (): void => {
      const waitedMs = Math.round(this.#clock.monotonicMs() - startedAtMs);
      this.#log.warn("the start waits", { for: what, waitedMs, reason: wait.reason });
      delayMs = Math.min(WAIT_LOG_MS_MAX, 2 * delayMs);
      timer = this.#clock.setTimer(delayMs, report);
    };
    let timer = this.#clock.setTimer(delayMs, report);
    try {
      return await step(
        (thrown) => (wait.reason = toConcordError(thrown).message),
        (text) => (wait.reason = text),
      );
    } finally {
      timer.cancel();
      this.#waits.delete(wait);
    }
  }
}

/** Rejects with the reason of the signal when that comes first; `abandon` then gets a later answer. */
function unlessAborted<Answer>(trying: Promise<Answer>, signal: AbortSignal, abandon: (answer: Answer) => void): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const leave = (): void => {
      reject(signal.reason as Error);
      trying.then(abandon, () => undefined);
    };
    if (signal.aborted) return leave();
    signal.addEventListener("abort", leave, { once: true });
    trying.then(
      (answer) => {
        signal.removeEventListener("abort", leave);
        resolve(answer);
      },
      (thrown: unknown) => {
        signal.removeEventListener("abort", leave);
        reject(thrown);
      },
    );
  });
}

function isRetryable(thrown: unknown): boolean {
  return thrown instanceof ConcordError && ERRORS[thrown.code].retryable;
}

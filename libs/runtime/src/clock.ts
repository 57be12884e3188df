/** A timer that has been set. `cancel` after it fired is harmless. */
export interface Timer {
  cancel(): void;
}

/**
 * Time as an argument. Nothing in Concord reads a clock except through this interface, so the simulator can run the same code
 * on virtual time. Wall time may step in both directions; monotonic time never goes back.
 */
export interface Clock {
  /** Wall clock, milliseconds since the Unix epoch. */
  nowMs(): number;
  /** Wall clock, microseconds since the Unix epoch: the unit of write timestamps. */
  nowUs(): bigint;
  /** Milliseconds since an arbitrary start; never goes back. Deadlines are monotonic. */
  monotonicMs(): number;
  /** Calls `action` once after `delayMs`. */
  setTimer(delayMs: number, action: () => void): Timer;
  /**
   * Calls `action` without any delay, in the next turn: what other events bring in this one comes before it. Or still in this turn, as soon as
   * the promises that are settled have had their reactions: where what one event leads to becomes one frame, which leaves a turn earlier.
   */
  defer(action: () => void, turn?: "next" | "this"): void;
}

/** Resolves after `delayMs`, or at once when `signal` is aborted (it does not reject: the caller looks at the signal). */
export function sleep(clock: Clock, delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted === true) {
      resolve();
      return;
    }
    const finish = (): void => {
      timer.cancel();
      signal?.removeEventListener("abort", finish);
      resolve();
    };
    const timer = clock.setTimer(delayMs, finish);
    signal?.addEventListener("abort", finish, { once: true });
  });
}

import { assert } from "./assert.ts";
import { sleep, type Clock } from "./clock.ts";
import type { Random } from "./random.ts";

export interface BackoffLimits {
  /** Length of the first pause; above 0. */
  readonly initialMs: number;
  readonly maxMs: number;
  /** Length of a pause relative to the one before; at least 1. Default 2. */
  readonly factor?: number;
  /** Shortens each pause to a random fraction of its length, so that callers that failed together do not return together. */
  readonly jitter?: Random;
}

export interface PauseOptions {
  /** What the server asked for. */
  readonly atLeastMs?: number;
  /** Monotonic: a pause that would not end before it is not begun. */
  readonly deadlineAtMs?: number;
}

/** Growing pauses of one retry loop. */
export interface Backoff {
  /** True after the pause. False at once when the deadline is too near, and when the signal aborts: the loop ends. */
  pause(options?: PauseOptions): Promise<boolean>;
  /** The length of the next pause, for a caller that has more to do before it sleeps. */
  nextMs(): number;
  /** After a success: the next pause is the first again. */
  reset(): void;
}

export function backoff(clock: Clock, limits: BackoffLimits, signal?: AbortSignal): Backoff {
  let failures = 0;
  const nextMs = (): number => {
    failures += 1;
    const pauseMs = backoffMs(limits, failures);
    return limits.jitter === undefined ? pauseMs : limits.jitter.float() * pauseMs;
  };
  const pause = async ({ atLeastMs = 0, deadlineAtMs = Infinity }: PauseOptions = {}): Promise<boolean> => {
    const pauseMs = Math.max(atLeastMs, nextMs());
    if (clock.monotonicMs() + pauseMs >= deadlineAtMs) return false;
    await sleep(clock, pauseMs, signal);
    return signal?.aborted !== true;
  };
  return { pause, nextMs, reset: () => void (failures = 0) };
}

/** The pause after this many failures in a row, without jitter; none after none. */
export function backoffMs({ initialMs, maxMs, factor = 2 }: BackoffLimits, failures: number): number {
  assert(initialMs > 0 && maxMs >= initialMs && factor >= 1, "pauses do not shrink");
  return failures === 0 ? 0 : Math.min(maxMs, initialMs * factor ** (failures - 1));
}

import { type Clock, type Timer } from "./clock.ts";

/** Length of a step: its timer fires in a turn of the event loop of its own, after what has arrived meanwhile. */
const STEP_MS = 25;
/** Longest wall time of a limit, as a multiple of it. */
const STRETCH_MAX = 4;

/**
 * As `setTimer`, for limits on what the process itself has to do: time in which it gets no processor counts a quarter. Such a limit is longer on a busy
 * machine, where everything else takes longer too.
 */
export function runningTimer(clock: Clock, delayMs: number, action: () => void): Timer {
  let remainingMs = delayMs;
  let timer: Timer;
  const step = (): void => {
    const begunAtMs = clock.monotonicMs();
    const stepMs = Math.min(STEP_MS, remainingMs);
    timer = clock.setTimer(stepMs, () => {
      remainingMs -= Math.max(stepMs, (clock.monotonicMs() - begunAtMs) / STRETCH_MAX);
      if (remainingMs <= 0) action();
      else step();
    });
  };
  step();
  return { cancel: () => timer.cancel() };
}

import { performance } from "node:perf_hooks";
import type { Clock, Timer } from "@concord/runtime";

/** The longest delay setTimeout knows; a longer timer is set again when it fires. */
const DELAY_MS_MAX = 2 ** 31 - 1;

/** The machine's own clocks. Timers keep the process alive, like the work they stand for. */
export const nodeClock: Clock = {
  nowMs: () => Date.now(),
  /** Wall time with the resolution the system has; may step with it. */
  nowUs: () => BigInt(Math.round((performance.timeOrigin + performance.now()) * 1000) + stepUs()),
  monotonicMs: () => performance.now(),
  setTimer,
  /** A tick that a reaction asks for runs when no reaction is left; what it writes to a stream of HTTP/2 is sent before the loop looks for events. */
  defer: (action, turn = "next") => void (turn === "this" ? queueMicrotask(() => process.nextTick(action)) : setImmediate(action)),
};

/** performance.timeOrigin is fixed at start: when the wall clock has been stepped since, the step is added. */
function stepUs(): number {
  const driftMs = Date.now() - (performance.timeOrigin + performance.now());
  return Math.abs(driftMs) < 1.5 ? 0 : Math.round(driftMs * 1000);
}

/** Not a fraction of a millisecond early, as Node's timers may be: who looks at the clock then finds that its time has come. */
function setTimer(delayMs: number, action: () => void): Timer {
  const dueMs = performance.now() + delayMs;
  let handle: NodeJS.Timeout;
  const arm = (remainingMs: number): void => {
    handle = setTimeout(
      () => {
        const leftMs = dueMs - performance.now();
        if (leftMs > 0) arm(leftMs);
        else action();
      },
      Math.min(remainingMs, DELAY_MS_MAX),
    );
  };
  arm(Math.max(0, delayMs));
  return { cancel: () => clearTimeout(handle) };
}

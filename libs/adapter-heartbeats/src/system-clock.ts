import type { Clock } from "@concord/runtime";

const NS_PER_MS = 1e6;

/** The same clock in all threads of a process, unlike `performance.now()`, which begins with its thread. */
export function systemMonotonicMs(): number {
  return Number(process.hrtime.bigint()) / NS_PER_MS;
}

/** The clock of a thread that no clock is passed to. */
export function systemClock(offsetMs: number): Pick<Clock, "monotonicMs" | "setTimer"> {
  return {
    monotonicMs: () => systemMonotonicMs() + offsetMs,
    setTimer: (delayMs, action) => {
      const handle = setTimeout(action, delayMs);
      return { cancel: () => clearTimeout(handle) };
    },
  };
}

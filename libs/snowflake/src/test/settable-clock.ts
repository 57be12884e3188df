import type { Clock, Timer } from "@concord/runtime";

/** A wall clock that stands where the test puts it; who sleeps lets it pass. */
export class SettableClock implements Clock {
  wallMs: number;
  slept = 0;

  constructor(wallMs = 1_800_000_000_000) {
    this.wallMs = wallMs;
  }

  nowMs(): number {
    return this.wallMs;
  }

  nowUs(): bigint {
    return BigInt(this.wallMs) * 1000n;
  }

  monotonicMs(): number {
    return this.wallMs;
  }

  setTimer(delayMs: number, action: () => void): Timer {
    let live = true;
    queueMicrotask(() => {
      if (!live) return;
      this.wallMs += delayMs;
      this.slept += delayMs;
      action();
    });
    return { cancel: () => void (live = false) };
  }

  defer(action: () => void): void {
    queueMicrotask(action);
  }
}

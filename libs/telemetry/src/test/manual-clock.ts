import type { Clock, Timer } from "@concord/runtime";

/** Time that moves when the test says so. */
export class ManualClock implements Clock {
  #elapsedMs = 0;
  #timers: { readonly dueAtMs: number; readonly action: () => void }[] = [];
  wallStepMs = 0;

  nowMs(): number {
    return 1_700_000_000_000 + this.#elapsedMs + this.wallStepMs;
  }

  nowUs(): bigint {
    return BigInt(this.nowMs()) * 1000n;
  }

  monotonicMs(): number {
    return this.#elapsedMs;
  }

  setTimer(delayMs: number, action: () => void): Timer {
    const timer = { dueAtMs: this.#elapsedMs + delayMs, action };
    this.#timers.push(timer);
    return { cancel: () => (this.#timers = this.#timers.filter((one) => one !== timer)) };
  }

  defer(action: () => void): void {
    setImmediate(action);
  }

  /** And lets what it leads to happen. */
  async advance(ms: number): Promise<void> {
    this.#elapsedMs += ms;
    const due = this.#timers.filter((timer) => timer.dueAtMs <= this.#elapsedMs);
    this.#timers = this.#timers.filter((timer) => timer.dueAtMs > this.#elapsedMs);
    for (const { action } of due) action();
    await new Promise((resolve) => setImmediate(resolve));
  }
}

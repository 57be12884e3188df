import type { Clock } from "../index.ts";

/** A clock that moves when a test advances it. */
export class ManualClock implements Clock {
  #nowMs = 0;
  #timers: { readonly atMs: number; readonly action: () => void }[] = [];

  nowMs(): number {
    return this.#nowMs;
  }
  nowUs(): bigint {
    return BigInt(this.#nowMs) * 1000n;
  }
  monotonicMs(): number {
    return this.#nowMs;
  }
  setTimer(delayMs: number, action: () => void): { cancel(): void } {
    const timer = { atMs: this.#nowMs + delayMs, action };
    this.#timers.push(timer);
    return { cancel: () => void (this.#timers = this.#timers.filter((other) => other !== timer)) };
  }
  defer(action: () => void): void {
    action();
  }
  get timers(): number {
    return this.#timers.length;
  }

  async advance(ms: number): Promise<void> {
    const endMs = this.#nowMs + ms;
    for (;;) {
      for (let turn = 0; turn < 10; turn += 1) await Promise.resolve();
      const next = this.#timers.toSorted((a, b) => a.atMs - b.atMs)[0];
      if (next === undefined || next.atMs > endMs) break;
      this.#timers = this.#timers.filter((one) => one !== next);
      this.#nowMs = next.atMs;
      next.action();
    }
    this.#nowMs = endMs;
  }
}

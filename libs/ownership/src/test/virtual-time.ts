import type { Clock, Timer } from "@concord/runtime";

interface Event {
  readonly atMs: number;
  readonly action: () => void;
}

/** Events in virtual time; between two of them everything that awaits runs to its end. */
export class VirtualTime implements Clock {
  #nowMs = 0;
  #events: Event[] = [];

  nowMs(): number {
    return this.#nowMs;
  }

  nowUs(): bigint {
    return BigInt(Math.floor(this.#nowMs)) * 1000n;
  }

  monotonicMs(): number {
    return this.#nowMs;
  }

  setTimer(delayMs: number, action: () => void): Timer {
    const event = { atMs: this.#nowMs + delayMs, action };
    const at = this.#events.findIndex(({ atMs }) => atMs > event.atMs);
    this.#events.splice(at === -1 ? this.#events.length : at, 0, event);
    return { cancel: () => void (this.#events = this.#events.filter((one) => one !== event)) };
  }

  defer(action: () => void): void {
    this.setTimer(0, action);
  }

  /** Number of timers that wait. */
  get waiting(): number {
    return this.#events.length;
  }

  async advance(ms: number): Promise<void> {
    const endMs = this.#nowMs + ms;
    await settled();
    for (;;) {
      const next = this.#events[0];
      if (next === undefined || next.atMs > endMs) break;
      this.#events.shift();
      this.#nowMs = next.atMs;
      next.action();
      await settled();
    }
    this.#nowMs = endMs;
  }
}

/** Resolves when all that was begun has run as far as it can without time. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 2; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

import type { Clock, Timer } from "@concord/runtime";

/** Virtual time that jumps to the next timer as soon as nothing else is left to do, while a test waits in `until`. */
export class VirtualClock implements Clock {
  #nowMs = 1_000_000;
  #timers: { readonly atMs: number; readonly action: () => void }[] = [];
  #deferred: (() => void)[] = [];

  nowMs(): number {
    return this.#nowMs;
  }

  nowUs(): bigint {
    return BigInt(this.#nowMs) * 1000n;
  }

  monotonicMs(): number {
    return this.#nowMs;
  }

  setTimer(delayMs: number, action: () => void): Timer {
    const timer = { atMs: this.#nowMs + Math.max(0, delayMs), action };
    this.#timers.push(timer);
    return { cancel: () => void (this.#timers = this.#timers.filter((one) => one !== timer)) };
  }

  defer(action: () => void): void {
    this.#deferred.push(action);
  }

  async until<T>(promise: Promise<T>): Promise<T> {
    let isSettled = false;
    const settle = (): void => void (isSettled = true);
    promise.then(settle, settle);
    for (;;) {
      await promiseReactions();
      if (isSettled) return promise;
      const due = this.#deferred.splice(0);
      if (due.length > 0) for (const action of due) action();
      else this.#fireNext();
    }
  }

  #fireNext(): void {
    const next = this.#timers.toSorted((a, b) => a.atMs - b.atMs)[0];
    if (next === undefined) throw new Error("the test waits for something that will never happen");
    this.#timers = this.#timers.filter((timer) => timer !== next);
    this.#nowMs = Math.max(this.#nowMs, next.atMs);
    next.action();
  }
}

/** After all promise reactions that are due, however many there are. */
function promiseReactions(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve); // oxlint-disable-line concord/no-ambient
  });
}

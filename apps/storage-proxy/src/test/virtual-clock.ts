import type { Clock, Timer } from "@concord/runtime";

interface Event {
  readonly atMs: number;
  readonly order: number;
  readonly action: () => void;
}

/** Time that moves only when nothing else is left to do in this process. */
export class VirtualClock implements Clock {
  #nowMs = 1_800_000_000_000;
  /** How far the wall clock is off; the monotonic one never steps. */
  wallOffMs = 0;
  #order = 0;
  readonly #events: Event[] = [];

  nowMs(): number {
    return this.#nowMs + this.wallOffMs;
  }

  nowUs(): bigint {
    return BigInt(this.nowMs()) * 1000n;
  }

  monotonicMs(): number {
    return this.#nowMs;
  }

  setTimer(delayMs: number, action: () => void): Timer {
    let live = true;
    this.#push(this.#nowMs + Math.max(0, Math.ceil(delayMs)), () => live && action());
    return { cancel: () => void (live = false) };
  }

  defer(action: () => void): void {
    this.#push(this.#nowMs, action);
  }

  /** Runs what is due, then moves on to the next event, until the promise settles. */
  async run<Result>(promise: Promise<Result>, limitMs = 600_000): Promise<Result> {
    let settled = false;
    const done = (): void => void (settled = true);
    promise.then(done, done);
    const untilMs = this.#nowMs + limitMs;
    for (;;) {
      await new Promise((resolve) => setImmediate(resolve));
      if (settled) return promise;
      const next = this.#events[0];
      if (next === undefined) throw new Error("nothing is left to happen, and the promise has not settled");
      if (next.atMs > untilMs) throw new Error(`not settled after ${limitMs} ms`);
      this.#nowMs = next.atMs;
      while (this.#events[0] !== undefined && this.#events[0].atMs <= this.#nowMs) this.#events.shift()!.action();
    }
  }

  /** Lets `durationMs` pass. */
  advance(durationMs: number): Promise<void> {
    return this.run(new Promise((resolve) => this.setTimer(durationMs, resolve)));
  }

  #push(atMs: number, action: () => void): void {
    const event = { atMs, order: (this.#order += 1), action };
    let at = this.#events.length;
    while (at > 0 && this.#events[at - 1]!.atMs > atMs) at -= 1;
    this.#events.splice(at, 0, event);
  }
}

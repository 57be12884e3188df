import type { Clock, Timer } from "@concord/runtime";

/** Events in virtual time; between two events everything that awaits runs to its end. */
export class VirtualTime implements Clock {
  #nowMs = 1_000_000;
  #order = 0;
  readonly #events: { atMs: number; order: number; action: () => void }[] = [];

  nowMs(): number {
    return this.#nowMs;
  }

  nowUs(): bigint {
    return BigInt(Math.floor(this.#nowMs * 1000));
  }

  monotonicMs(): number {
    return this.#nowMs;
  }

  setTimer(delayMs: number, action: () => void): Timer {
    let live = true;
    this.#push(this.#nowMs + Math.max(0, delayMs), () => live && action());
    return { cancel: () => void (live = false) };
  }

  defer(action: () => void): void {
    this.#push(this.#nowMs, action);
  }

  /** Runs events until the promise settles or `untilMs` of virtual time have passed. */
  async run<Result>(promise: Promise<Result>, untilMs: number): Promise<Result> {
    let settled = false;
    const done = (): void => void (settled = true);
    promise.then(done, done);
    const limitMs = this.#nowMs + untilMs;
    for (;;) {
      await new Promise((resolve) => setImmediate(resolve));
      if (settled) return promise;
      const event = this.#pop();
      if (event === undefined) throw new Error("nothing is left to happen");
      if (event.atMs > limitMs) throw new Error(`not settled after ${untilMs} ms`);
      this.#nowMs = event.atMs;
      event.action();
    }
  }

  #push(atMs: number, action: () => void): void {
    const event = { atMs, order: (this.#order += 1), action };
    const events = this.#events;
    let index = events.length;
    events.push(event);
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (!before(event, events[parent]!)) break;
      events[index] = events[parent]!;
      index = parent;
    }
    events[index] = event;
  }

  #pop(): { atMs: number; action: () => void } | undefined {
    const events = this.#events;
    const first = events[0];
    const last = events.pop();
    if (first === undefined || last === undefined || events.length === 0) return first;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= events.length) break;
      if (child + 1 < events.length && before(events[child + 1]!, events[child]!)) child += 1;
      if (!before(events[child]!, last)) break;
      events[index] = events[child]!;
      index = child;
    }
    events[index] = last;
    return first;
  }
}

function before(left: { atMs: number; order: number }, right: { atMs: number; order: number }): boolean {
  return left.atMs < right.atMs || (left.atMs === right.atMs && left.order < right.order);
}

/** mulberry32: small, seeded, good enough for choosing faults. */
export class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  float(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  }

  below(limit: number): number {
    return Math.floor(this.float() * limit);
  }

  chance(probability: number): boolean {
    return this.float() < probability;
  }
}

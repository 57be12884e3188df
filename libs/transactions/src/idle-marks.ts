import { assert, type Clock, type Timer } from "@concord/runtime";

interface Waiting {
  readonly dueAtMs: number;
  readonly aloneAtMs: number;
  readonly leave: () => void;
}

/**
 * When the marks of idle groups leave (TXD14): once due, with the next append of any group of this coordinator, whose message and sync they
 * share at each replica; alone when none comes. One for all groups of a coordinator.
 */
export class IdleMarks {
  readonly #clock: Clock;
  /** By who waits: one life of a group's master. */
  readonly #waiting = new Map<object, Waiting>();
  #timer: Timer | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** `leave` is called once: after `idleMs` with an append of another group, at the latest after `aloneMs`. */
  wait(master: object, { idleMs, aloneMs }: { readonly idleMs: number; readonly aloneMs: number }, leave: () => void): void {
    const nowMs = this.#clock.monotonicMs();
    this.#waiting.set(master, { dueAtMs: nowMs + idleMs, aloneAtMs: nowMs + Math.max(idleMs, aloneMs), leave });
    this.#setTimer(nowMs);
    assert(this.#timer !== undefined, "a mark that waits leaves without another append");
  }

  cancel(master: object): void {
    this.#waiting.delete(master);
  }

  /** An append of some group leaves in this turn. */
  appended(): void {
    if (this.#waiting.size === 0) return;
    const nowMs = this.#clock.monotonicMs();
    for (const [master, { dueAtMs, leave }] of this.#waiting) {
      if (dueAtMs > nowMs) continue;
      this.#waiting.delete(master);
      leave();
    }
  }

  /** One timer for all; those that are due when it fires leave together. */
  #setTimer(nowMs: number): void {
    if (this.#timer !== undefined || this.#waiting.size === 0) return;
    let nextAtMs = Infinity;
    for (const { aloneAtMs } of this.#waiting.values()) nextAtMs = Math.min(nextAtMs, aloneAtMs);
    this.#timer = this.#clock.setTimer(Math.max(0, nextAtMs - nowMs), () => {
      this.#timer = undefined;
      this.appended();
      this.#setTimer(this.#clock.monotonicMs());
    });
  }
}

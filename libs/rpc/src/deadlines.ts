import type { Clock, Timer } from "@concord/runtime";
import { DEADLINE_TICK_MS } from "./limits.ts";

export interface WithDeadline {
  /** Monotonic milliseconds. */
  readonly deadlineAtMs: number;
}

/**
 * Many deadlines on one timer. An expired item is handed to `onExpired` once and removed; it may be up to DEADLINE_TICK_MS late.
 * The timer stays armed when its item leaves early: it then finds the next one to wait for, so a quick call costs no timer.
 */
export class Deadlines<Item extends WithDeadline> {
  readonly #clock: Clock;
  readonly #onExpired: (item: Item) => void;
  readonly #items = new Set<Item>();
  #armed: { readonly timer: Timer; readonly atMs: number } | undefined;

  constructor(clock: Clock, onExpired: (item: Item) => void) {
    this.#clock = clock;
    this.#onExpired = onExpired;
  }

  add(item: Item): void {
    this.#items.add(item);
    if (this.#armed === undefined || item.deadlineAtMs < this.#armed.atMs - DEADLINE_TICK_MS) this.#arm(item.deadlineAtMs);
  }

  delete(item: Item): void {
    this.#items.delete(item);
  }

  clear(): void {
    this.#items.clear();
    this.#armed?.timer.cancel();
    this.#armed = undefined;
  }

  #arm(atMs: number): void {
    this.#armed?.timer.cancel();
    const nowMs = this.#clock.monotonicMs();
    const delayMs = Math.max(DEADLINE_TICK_MS, Math.ceil(atMs - nowMs));
    this.#armed = { timer: this.#clock.setTimer(delayMs, () => this.#fire()), atMs: nowMs + delayMs };
  }

  #fire(): void {
    this.#armed = undefined;
    const nowMs = this.#clock.monotonicMs();
    const expired: Item[] = [];
    let nextAtMs = Infinity;
    for (const item of this.#items) {
      if (item.deadlineAtMs <= nowMs) expired.push(item);
      else if (item.deadlineAtMs < nextAtMs) nextAtMs = item.deadlineAtMs;
    }
    for (const item of expired) this.#items.delete(item);
    if (nextAtMs !== Infinity) this.#arm(nextAtMs);
    for (const item of expired) this.#onExpired(item);
  }
}

import type { Clock, Timer } from "@concord/runtime";
import { DEADLINE_TICK_MS } from "./limits.ts";

/**
 * Many deadlines on one timer: `expire` ends what is due and answers the earliest deadline that is left, Infinity for none. It is called
 * up to DEADLINE_TICK_MS late. The timer stays armed when what it waits for ends early, so a quick call costs no timer.
 */
export class Deadlines {
  readonly #clock: Clock;
  readonly #expire: (nowMs: number) => number;
  #armed: { readonly timer: Timer; readonly atMs: number } | undefined;

  constructor(clock: Clock, expire: (nowMs: number) => number) {
    this.#clock = clock;
    this.#expire = expire;
  }

  /** A deadline more, in monotonic milliseconds. */
  add(deadlineAtMs: number): void {
    if (this.#armed === undefined || deadlineAtMs < this.#armed.atMs - DEADLINE_TICK_MS) this.#arm(deadlineAtMs);
  }

  clear(): void {
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
    const nextAtMs = this.#expire(this.#clock.monotonicMs());
    if (nextAtMs !== Infinity) this.add(nextAtMs);
  }
}

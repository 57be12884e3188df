import { assert, type Clock } from "@concord/runtime";
import { LIFECYCLE_TIME_RATE_MAX } from "./limits.ts";

/**
 * Wall time that a step ahead does not move: it runs at most `rateMax` times as fast as monotonic time, and never behind the wall
 * clock's back: a clock that went back is believed at once. So a wrong clock expires nothing at once, and a stop of the machine is caught up.
 */
export class BoundedTime {
  readonly #clock: Clock;
  readonly #rateMax: number;
  #baseMs: number;
  #atMs: number;

  constructor(clock: Clock, rateMax = LIFECYCLE_TIME_RATE_MAX) {
    assert(rateMax >= 1, "time that is never caught up");
    this.#clock = clock;
    this.#rateMax = rateMax;
    this.#baseMs = clock.nowMs();
    this.#atMs = clock.monotonicMs();
  }

  /** Goes on from an earlier process's time, if that is earlier. */
  continueFrom(timeMs: number): void {
    this.nowMs();
    this.#baseMs = Math.min(this.#baseMs, timeMs);
  }

  /** Whole milliseconds, which rows are written with: monotonic time has fractions. */
  nowMs(): number {
    const [wallMs, monotonicMs] = [this.#clock.nowMs(), this.#clock.monotonicMs()];
    assert(monotonicMs >= this.#atMs, "monotonic time never goes back");
    const ceilingMs = this.#baseMs + (monotonicMs - this.#atMs) * this.#rateMax;
    this.#baseMs = Math.max(this.#baseMs, Math.min(wallMs, ceilingMs));
    assert(this.#baseMs <= ceilingMs, "OGD18, OGD21: a clock that jumps is followed at the rate alone");
    this.#atMs = monotonicMs;
    return Math.floor(Math.min(wallMs, this.#baseMs));
  }

  /** How far the wall clock is ahead. */
  lagMs(): number {
    return Math.max(0, this.#clock.nowMs() - this.nowMs());
  }
}

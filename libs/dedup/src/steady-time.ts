import { assert, type Clock } from "@concord/runtime";
import { CLOCK_STEP_MS_MAX } from "./limits.ts";

/**
 * The time that ids age by (I10). It never goes back, and it follows the wall clock forward no faster than the monotonic clock, plus a step
 * of CLOCK_STEP_MS_MAX in as long a time: a clock that jumps ahead, in this process or before it began, does not make a window forget. Where it
 * stays behind, ids are kept for longer than configured.
 */
export class SteadyTime {
  readonly #clock: Clock;
  readonly #onHeld: (aheadMs: number) => void;
  #ms = 0;
  #atMs: number;
  /** How far it may step now. */
  #stepMs = CLOCK_STEP_MS_MAX;
  #isHeld = false;

  /** `onHeld`: the wall clock jumped ahead by so much, and is not followed. */
  constructor(clock: Clock, onHeld: (aheadMs: number) => void) {
    this.#clock = clock;
    this.#onHeld = onHeld;
    this.#atMs = clock.monotonicMs();
  }

  /** Goes on from `knownMs`, the newest time of an earlier process; without one from the wall clock. Again: it does not go back. */
  continueFrom(knownMs: number | undefined): void {
    this.#ms = Math.max(this.#ms, knownMs ?? this.#clock.nowMs());
  }

  /** Whole milliseconds. */
  now(): number {
    const monotonicMs = this.#clock.monotonicMs();
    const elapsedMs = Math.max(0, monotonicMs - this.#atMs);
    this.#atMs = monotonicMs;
    this.#stepMs = Math.min(CLOCK_STEP_MS_MAX, this.#stepMs + elapsedMs);
    const wallMs = this.#clock.nowMs();
    // A wall clock that was set back stands still here until it is where it was.
    const movedMs = Math.min(elapsedMs, Math.max(0, wallMs - this.#ms));
    const steppedMs = Math.min(this.#stepMs, Math.max(0, wallMs - this.#ms - movedMs));
    assert(movedMs >= 0 && steppedMs >= 0, "I10: the time that ids age by never goes back");
    this.#stepMs -= steppedMs;
    assert(this.#stepMs >= 0, "I10: a clock that jumps is followed by its step alone");
    this.#ms += movedMs + steppedMs;
    this.#report(wallMs - this.#ms);
    return Math.floor(this.#ms);
  }

  #report(aheadMs: number): void {
    const isHeld = aheadMs > CLOCK_STEP_MS_MAX;
    if (isHeld && !this.#isHeld) this.#onHeld(aheadMs);
    this.#isHeld = isHeld;
  }
}

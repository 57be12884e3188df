import { assert } from "@concord/runtime";
import { GATHER_APPEND_SHARE, GATHER_FROM_APPEND_MS } from "./limits.ts";

/** Weight of the newest append in what appends take. */
const NEWEST_SHARE = 0.25;

/**
 * How long a flush waits for commits that are expected soon (TXD10), where the owner applies rows. Departure: TXD10 lets the client alone
 * bound the wait, 0 = now. Where an append takes long, what it costs weighs more than a short wait: the clients it answers come back with their next transactions, and one flush
 * then takes theirs with those that queued meanwhile. So after an append the next flush waits until as many commits are there as it had and as were queued, for a share of what an append
 * takes at most. A transaction that is alone, or comes later, never waits.
 */
export class Gathering {
  readonly #msMax: number;
  #appendMs = 0;
  #sentAtMs = 0;
  /** Of the append on its way; 0 when it left others behind, for the next flush is full without a wait. */
  #sent = 0;
  #expected = 0;
  #untilMs = -Infinity;

  constructor(msMax: number) {
    assert(msMax >= 0, "a wait is no less than none");
    this.#msMax = msMax;
  }

  /** A flush leaves with so many commits; so many stay queued, which did not fit into it. */
  sent(commits: number, left: number, nowMs: number): void {
    assert(commits > 0, "a flush has a commit");
    this.#sentAtMs = nowMs;
    this.#sent = left > 0 ? 0 : commits;
  }

  /** It is logged, and its clients hear of it. */
  logged(queued: number, nowMs: number): void {
    const tookMs = nowMs - this.#sentAtMs;
    assert(tookMs >= 0, "time does not go back");
    this.#appendMs += (tookMs - this.#appendMs) * (this.#appendMs === 0 ? 1 : NEWEST_SHARE);
    this.#expected = this.#sent + queued;
    const isLong = this.#sent > 0 && this.#appendMs >= GATHER_FROM_APPEND_MS;
    this.#untilMs = isLong ? nowMs + Math.min(this.#msMax, this.#appendMs * GATHER_APPEND_SHARE) : -Infinity;
    assert(this.#untilMs <= nowMs + this.#msMax, "TXD10: a wait for companions is bounded");
  }

  /** When a flush of so many commits leaves at the latest, monotonic; in the past: at once. */
  untilMs(queued: number): number {
    return queued >= this.#expected ? -Infinity : this.#untilMs;
  }
}

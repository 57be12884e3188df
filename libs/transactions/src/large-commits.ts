import { assert, ConcordError, type Clock } from "@concord/runtime";
import {
  LARGE_COMMIT_BYTES,
  LARGE_COMMITS_BYTES_MAX,
  LARGE_COMMITS_LESS,
  LARGE_COMMITS_TARGET_MS,
  LARGE_RETRY_MS_MAX,
  LARGE_RETRY_MS_MIN,
} from "./limits.ts";

/** A large commit on its way. */
export interface LargeCommit {
  /** It waits for a lock until `goesOn`: the holder's time, which says nothing of the load. */
  waits(): void;
  goesOn(): void;
  /** Once, at the transaction's end. */
  leave(): void;
}

/**
 * Which large commits a coordinator takes at the same time, for all its groups. More of them than it can do would each take longer than
 * their callers wait: all work is then lost, and small commits and heartbeats with it. So their bytes are limited, by less while they take
 * longer than LARGE_COMMITS_TARGET_MS, and the rest is refused before any work. Small commits are never refused here.
 */
export class LargeCommits {
  readonly #clock: Clock;
  #bytes = 0;
  #bytesMax = LARGE_COMMITS_BYTES_MAX;
  /** How long the last ones took, from here to their decision without waits for locks; the newest weighs a quarter. */
  #tookMs = 0;
  #loweredAtMs = -Infinity;
  /** Since the last one was taken: as many want the next place. */
  #refused = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * A commit of so many bytes comes in; undefined: it is small. OVERLOADED: the limit is reached, or the deadline (monotonic) ends before
   * such commits do. One alone is always taken.
   */
  enter(bytes: number, deadlineAtMs: number): LargeCommit | undefined {
    if (bytes < LARGE_COMMIT_BYTES) return undefined;
    const fromMs = this.#clock.monotonicMs();
    const isFull = this.#bytes + bytes > this.#bytesMax;
    if (this.#bytes > 0 && (isFull || fromMs + this.#tookMs > deadlineAtMs)) throw this.#refusal();
    this.#bytes += bytes;
    assert(this.#bytes === bytes || this.#bytes <= this.#bytesMax, "only one large commit alone is above the limit");
    this.#refused = 0;
    return this.#taken(bytes, fromMs);
  }

  #taken(bytes: number, enteredMs: number): LargeCommit {
    let fromMs = enteredMs;
    let waitsFromMs: number | undefined;
    let hasLeft = false;
    return {
      waits: () => {
        assert(waitsFromMs === undefined, "a transaction waits for one lock at a time");
        waitsFromMs = this.#clock.monotonicMs();
      },
      goesOn: () => {
        assert(waitsFromMs !== undefined, "it waited for a lock");
        fromMs += this.#clock.monotonicMs() - waitsFromMs;
        waitsFromMs = undefined;
      },
      leave: () => {
        assert(!hasLeft, "a commit leaves once");
        hasLeft = true;
        this.#bytes -= bytes;
        assert(this.#bytes >= 0, "what leaves was counted");
        // One that ended while it waited did not do its work: its time is no measure.
        if (waitsFromMs === undefined) this.#measure(bytes, this.#clock.monotonicMs() - fromMs);
      },
    };
  }

  #measure(bytes: number, tookMs: number): void {
    this.#tookMs = (3 * this.#tookMs + tookMs) / 4;
    const nowMs = this.#clock.monotonicMs();
    if (tookMs <= LARGE_COMMITS_TARGET_MS) {
      this.#bytesMax = Math.min(LARGE_COMMITS_BYTES_MAX, this.#bytesMax + bytes / 4);
    } else if (nowMs - this.#loweredAtMs >= LARGE_COMMITS_TARGET_MS) {
      // Once for all that were taken together.
      this.#loweredAtMs = nowMs;
      this.#bytesMax = Math.max(LARGE_COMMIT_BYTES, this.#bytesMax * LARGE_COMMITS_LESS);
    }
    assert(this.#bytesMax >= LARGE_COMMIT_BYTES && this.#bytesMax <= LARGE_COMMITS_BYTES_MAX, "the limit stays in its bounds");
  }

  #refusal(): ConcordError {
    this.#refused += 1;
    const retryAfterMs = Math.round(Math.min(LARGE_RETRY_MS_MAX, Math.max(LARGE_RETRY_MS_MIN, this.#refused * this.#tookMs)));
    assert(retryAfterMs >= LARGE_RETRY_MS_MIN && retryAfterMs <= LARGE_RETRY_MS_MAX, "what is refused may come again within bounds");
    return new ConcordError("OVERLOADED", `large commits of ${this.#bytes} bytes are on their way; repeat the transaction later`, {
      retryAfterMs,
      metadata: { limit: "LARGE_COMMITS_BYTES_MAX", value: String(Math.round(this.#bytesMax)) },
    });
  }
}

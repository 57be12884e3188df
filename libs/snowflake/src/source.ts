import { assert, ConcordError, sleep, type Clock } from "@concord/runtime";
import type { HighWaterMark, IdRange, IdSource } from "./api.ts";
import { endMs, initialState, issue, type GuidState, type Issue } from "./issue.ts";
import { CLOCK_RETRY_MS, MARK_AHEAD_MS, WORKER_ID_MAX } from "./limits.ts";

export interface GuidSourceOptions {
  /** 0 to WORKER_ID_MAX; the mark belongs to this worker id and to one source at a time. */
  readonly workerId: number;
  readonly clock: Clock;
  readonly mark: HighWaterMark;
  /** How far the mark is raised ahead. */
  readonly markAheadMs?: number;
  /**
   * What happens where the clock stands behind the ids already made: `wait`, the default, waits or refuses (I4); `go-on` makes the next ones as if it stood
   * still, for ids whose time means nothing.
   */
  readonly behind?: "wait" | "go-on";
}

/** Ids of one worker, unique across clock steps and restarts. The mark is loaded with the first id. */
export function openGuidSource(options: GuidSourceOptions): IdSource {
  return new MarkedSource(options);
}

type Mark =
  | { readonly kind: "unread" }
  /** No id of `raisedToMs` or later may leave. */
  | { readonly kind: "raised"; readonly raisedToMs: number }
  | { readonly kind: "fenced"; readonly error: ConcordError };

class MarkedSource implements IdSource {
  readonly workerId: number;
  readonly #clock: Clock;
  readonly #store: HighWaterMark;
  readonly #aheadMs: number;
  readonly #behind: "wait" | "go-on";
  #state: GuidState;
  #mark: Mark = { kind: "unread" };
  /** The load or raise under way; there is one at a time. */
  #moving: Promise<void> | undefined;

  constructor({ workerId, clock, mark, markAheadMs = MARK_AHEAD_MS, behind = "wait" }: GuidSourceOptions) {
    assert(Number.isInteger(workerId) && workerId >= 0 && workerId <= WORKER_ID_MAX, "a worker id is in its range");
    assert(Number.isInteger(markAheadMs) && markAheadMs >= 1, "a mark is raised ahead by whole milliseconds");
    this.workerId = workerId;
    this.#clock = clock;
    this.#store = mark;
    this.#aheadMs = markAheadMs;
    this.#behind = behind;
    this.#state = initialState(workerId);
  }

  async next(): Promise<bigint> {
    const ranges = await this.take(1);
    return ranges[0]!.first;
  }

  async take(count: number, signal?: AbortSignal): Promise<readonly IdRange[]> {
    for (;;) {
      if (this.#mark.kind === "fenced") throw this.#mark.error;
      if (this.#mark.kind === "unread") {
        await this.#move(() => this.#load());
        continue;
      }
      const { raisedToMs } = this.#mark;
      const clockMs = Math.floor(this.#clock.nowMs());
      const nowMs = this.#behind === "wait" ? clockMs : Math.max(clockMs, this.#state.nextMs);
      const issued = issue(this.#state, nowMs, count);
      if (issued.kind !== "issued") {
        await this.#waitFor(issued, nowMs, signal);
        continue;
      }
      const neededMs = endMs(issued.state);
      if (neededMs <= raisedToMs) {
        this.#state = issued.state;
        this.#raiseEarly(neededMs, raisedToMs);
        return issued.ranges;
      }
      // Durable before given out (I3): the position is taken only after the mark is above it.
      await this.#move(() => this.#raise(neededMs + this.#aheadMs));
    }
  }

  /** The clock is asked again afterwards: it may have stepped meanwhile. */
  async #waitFor(held: Exclude<Issue, { kind: "issued" }>, nowMs: number, signal: AbortSignal | undefined): Promise<void> {
    switch (held.kind) {
      case "skew": {
        const metadata = { behindMs: String(held.behindMs), workerId: String(this.workerId) };
        const retryAfterMs = Math.min(held.behindMs, CLOCK_RETRY_MS);
        throw new ConcordError("CLOCK_UNUSABLE", `the clock stands ${held.behindMs} ms behind the ids already made`, {
          metadata,
          retryAfterMs,
        });
      }
      case "out-of-range":
        throw new ConcordError("CLOCK_UNUSABLE", "the clock shows a time behind the last one an id can have", {
          retryAfterMs: CLOCK_RETRY_MS,
        });
      case "wait":
        await sleep(this.#clock, held.untilMs - nowMs, signal);
        if (signal?.aborted === true) throw new ConcordError("CANCELLED", "the caller did not wait for its ids", { applied: "no" });
    }
  }

  /** Half of the way used up: raise while ids still go out. If that fails, the next one that needs it hears why. */
  #raiseEarly(neededMs: number, raisedToMs: number): void {
    if (this.#moving !== undefined || raisedToMs - neededMs >= this.#aheadMs / 2) return;
    this.#move(() => this.#raise(neededMs + this.#aheadMs)).catch(() => undefined);
  }

  /** One at a time: who comes meanwhile waits for the one under way, with its failure, and looks again. */
  #move(action: () => Promise<void>): Promise<void> {
    this.#moving ??= action().finally(() => {
      this.#moving = undefined;
    });
    return this.#moving;
  }

  async #load(): Promise<void> {
    const floorMs = await this.#store.load();
    this.#state = initialState(this.workerId, floorMs);
    this.#mark = { kind: "raised", raisedToMs: this.#state.nextMs };
  }

  async #raise(toMs: number): Promise<void> {
    try {
      await this.#store.raise(toMs);
    } catch (thrown) {
      // Every id of this source stays below its last mark, and the next source of the worker id starts above it.
      if (thrown instanceof ConcordError && thrown.code === "EPOCH_FENCED") this.#mark = { kind: "fenced", error: thrown };
      throw thrown;
    }
    assert(this.#mark.kind === "raised" && toMs > this.#mark.raisedToMs, "a mark only rises");
    this.#mark = { kind: "raised", raisedToMs: toMs };
  }
}

import { assert, type Clock, type TimeId, type Timer } from "@concord/runtime";
import { QUEUED_OPENS_MAX } from "../limits.ts";

/** How the wait of a queued Start ended. */
export type Queued = "served" | "expired" | "withdrawn";

/** A Start that waits. */
export interface QueuedOpen {
  readonly group: string;
  readonly id: TimeId;
  /** Its caller; no other one withdraws it. */
  readonly identity: string;
}

interface Waiting extends QueuedOpen {
  readonly answer: Promise<Queued>;
  readonly end: (queued: Queued) => void;
}

/**
 * Starts of clients that asked a standby beside the master (TX19). They lock nothing and open nothing (TXD8): an entry is only a client that waits to
 * hear that this coordinator serves the group. One entry per id; it ends when the group is served, when its time is over, or when its client withdraws.
 */
export class QueuedOpens {
  readonly #clock: Clock;
  readonly #waiting = new Map<TimeId, Waiting>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#waiting.size;
  }

  /** Waits for the group; at once "expired" when too many wait already. Idempotent by id. */
  wait({ group, id, identity }: QueuedOpen, forMs: number): Promise<Queued> {
    assert(forMs > 0, "a queued Start waits for a while");
    const before = this.#waiting.get(id);
    if (before?.group === group && before.identity === identity) return before.answer;
    if (before !== undefined || this.#waiting.size >= QUEUED_OPENS_MAX) return Promise.resolve("expired");
    const { promise, resolve } = Promise.withResolvers<Queued>();
    const end = (queued: Queued): void => {
      timer.cancel();
      this.#waiting.delete(id);
      resolve(queued);
    };
    const timer: Timer = this.#clock.setTimer(forMs, () => end("expired"));
    this.#waiting.set(id, { group, id, identity, answer: promise, end });
    return promise;
  }

  /** The client has an answer elsewhere. Undefined: an operator, who may withdraw any. */
  withdraw(id: TimeId, identity: string | undefined): void {
    const waiting = this.#waiting.get(id);
    if (waiting !== undefined && (identity === undefined || identity === waiting.identity)) waiting.end("withdrawn");
  }

  /** This coordinator serves the group from now on. */
  served(group: string): void {
    for (const waiting of Array.from(this.#waiting.values())) if (waiting.group === group) waiting.end("served");
  }

  stop(): void {
    for (const waiting of Array.from(this.#waiting.values())) waiting.end("expired");
  }
}

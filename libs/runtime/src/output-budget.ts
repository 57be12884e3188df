import { assert } from "./assert.ts";
import type { Clock, Timer } from "./clock.ts";
import { ConcordError } from "./errors.ts";
import type { Metrics } from "./observe.ts";

/** In limits of the budget: up to here shares grow by what is needed, with all others. */
const NEEDED_FACTOR = 2;

export interface OutputBudgetOptions {
  readonly clock: Clock;
  readonly metrics: Metrics;
  /** All shares together, and as much again for answers that are made already and wait. A larger share is given alone. */
  readonly bytesMax: number;
  /** A client that took nothing for so long loses its share when others wait. */
  readonly stalledMs: number;
}

/** Bytes on their way to one client. */
export interface OutputShare {
  /** What the share turned out to take. */
  resize(bytes: number): void;
  /**
   * For a share of `open`: so many bytes more; false: there are no more. Bytes that are `needed` are given up to twice the limit, and there
   * clients that have taken nothing for longer than this one are broken off for them.
   */
  grow(bytes: number, needed: boolean): boolean;
  /** The client took some: its time begins anew with the next `unread`. */
  taken(): void;
  /** From now on the share waits for its client; `evict` is called, and the share given back, when that takes too long while others wait. */
  unread(evict: (reason: ConcordError) => void): void;
  /** May be called again. */
  release(): void;
}

interface Waiting {
  readonly bytes: number;
  /** True: the bytes are there already, in memory. */
  readonly isMade: boolean;
  readonly start: (share: OutputShare) => void;
}

/**
 * The memory of a process for what its clients have not taken yet. Shares are given in the order in which they are asked for. A client that
 * reads nothing keeps its share for as long as no other client needs it.
 */
export class OutputBudget {
  readonly #options: OutputBudgetOptions;
  readonly #waiting = new Set<Waiting>();
  /** In the order in which they began to wait for their clients. */
  readonly #unread = new Map<Share, number>();
  #heldBytes = 0;
  #shares = 0;
  /** Of those made already. */
  #waitingBytes = 0;
  #timer: Timer | undefined;

  constructor(options: OutputBudgetOptions) {
    assert(options.bytesMax > 0, "a budget is above 0");
    this.#options = options;
  }

  /** For what is made when its memory is there. Waits; undefined when `signal` is aborted first. */
  async take(bytes: number, signal: AbortSignal): Promise<OutputShare | undefined> {
    return this.#take(bytes, false, signal);
  }

  /** For what is made already. Waits; undefined when `signal` is aborted first. OVERLOADED when too many bytes wait. */
  async takeMade(bytes: number, signal: AbortSignal): Promise<OutputShare | undefined> {
    if (!this.#fitsNow(bytes) && this.#waitingBytes + bytes > this.#options.bytesMax) throw this.full();
    return this.#take(bytes, true, signal);
  }

  /** For what is made already and cannot wait: a share that is empty and grows. */
  open(): OutputShare {
    return this.#give(0);
  }

  /** Why a share does not grow. */
  full(): ConcordError {
    const { bytesMax } = this.#options;
    const bytes = this.#heldBytes + this.#waitingBytes;
    const text = `answers of ${bytes} bytes wait until clients have taken them: read faster, ask again later, or for less`;
    return new ConcordError("OVERLOADED", text, { applied: "unknown", metadata: { limit: "outputBufferBytes", value: String(bytesMax) } });
  }

  async #take(bytes: number, isMade: boolean, signal: AbortSignal): Promise<OutputShare | undefined> {
    assert(bytes >= 0, "a share has no negative size");
    if (signal.aborted) return undefined;
    if (this.#fitsNow(bytes)) return this.#give(bytes);
    return new Promise((resolve) => {
      const waiting: Waiting = {
        bytes,
        isMade,
        start: (share) => {
          signal.removeEventListener("abort", stop);
          resolve(share);
        },
      };
      const stop = (): void => {
        this.#leave(waiting);
        resolve(undefined);
        this.#next();
      };
      signal.addEventListener("abort", stop, { once: true });
      this.#waiting.add(waiting);
      if (isMade) this.#waitingBytes += bytes;
      this.#next();
    });
  }

  /** For `Share`. */
  grow(share: Share, bytes: number, needed: boolean): boolean {
    const heldMax = needed ? NEEDED_FACTOR * this.#options.bytesMax : this.#options.bytesMax;
    while (this.#heldBytes + this.#waitingBytes + bytes > heldMax) {
      const [oldest] = this.#unread.keys();
      if (!needed || oldest === undefined || oldest === share) return false;
      this.#evict(oldest);
    }
    this.#heldBytes += bytes;
    this.#report();
    this.#watch();
    return true;
  }

  /** For `Share`. */
  over(): void {
    this.#shares -= 1;
    assert(this.#shares >= 0, "a share ends once");
  }

  /** For `Share`. */
  changed(bytes: number): void {
    this.#heldBytes += bytes;
    assert(this.#heldBytes >= 0, "a share is given back once");
    if (bytes <= 0) this.#next();
    else this.#report();
  }

  /** For `Share`. */
  waitsForClient(share: Share, waits: boolean): void {
    if (!waits) this.#unread.delete(share);
    else if (!this.#unread.has(share)) this.#unread.set(share, this.#options.clock.monotonicMs());
    this.#next();
  }

  #leave(waiting: Waiting): void {
    const isGone = this.#waiting.delete(waiting);
    if (isGone && waiting.isMade) this.#waitingBytes -= waiting.bytes;
    assert(this.#waitingBytes >= 0, "a share waits once");
  }

  /** Not before those that wait. */
  #fitsNow(bytes: number): boolean {
    return this.#waiting.size === 0 && this.#fits(bytes);
  }

  #fits(bytes: number): boolean {
    return this.#heldBytes === 0 || this.#heldBytes + bytes <= this.#options.bytesMax;
  }

  #give(bytes: number): Share {
    this.#heldBytes += bytes;
    this.#shares += 1;
    this.#report();
    return new Share(this, bytes);
  }

  #next(): void {
    for (const waiting of this.#waiting) {
      if (!this.#fits(waiting.bytes)) break;
      this.#leave(waiting);
      waiting.start(this.#give(waiting.bytes));
    }
    this.#report();
    this.#watch();
  }

  #evict(share: Share): void {
    this.#options.metrics.count("rpc_server_output_evicted_total");
    share.evict(this.#stalled());
  }

  /** A share that was given alone, above the limit, harms no other. */
  #isShort(): boolean {
    return this.#waiting.size > 0 || (this.#shares > 1 && this.#heldBytes > this.#options.bytesMax);
  }

  /** While memory is short, the share that has waited longest for its client is looked at when its time is over. */
  #watch(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    const [oldest] = this.#unread;
    if (oldest === undefined || !this.#isShort()) return;
    const { clock, stalledMs } = this.#options;
    const [share, sinceMs] = oldest;
    this.#timer = clock.setTimer(Math.max(0, sinceMs + stalledMs - clock.monotonicMs()), () => this.#evict(share));
  }

  #report(): void {
    this.#options.metrics.gauge("rpc_server_output_bytes", this.#heldBytes);
    this.#options.metrics.gauge("rpc_server_output_waiting", this.#waiting.size);
  }

  #stalled(): ConcordError {
    const { stalledMs } = this.#options;
    return new ConcordError(
      "OVERLOADED",
      `nothing was read for ${stalledMs} ms while other clients waited for the memory: read faster, or ask for less`,
      {
        applied: "unknown",
        metadata: { limit: "OUTPUT_STALLED_MS", value: String(stalledMs) },
      },
    );
  }
}

class Share implements OutputShare {
  readonly #budget: OutputBudget;
  #bytes: number;
  #evict: ((reason: ConcordError) => void) | undefined;
  #isOver = false;

  constructor(budget: OutputBudget, bytes: number) {
    this.#budget = budget;
    this.#bytes = bytes;
  }

  resize(bytes: number): void {
    assert(!this.#isOver && bytes >= 0, "a share that was given back has no size");
    const change = bytes - this.#bytes;
    this.#bytes = bytes;
    this.#budget.changed(change);
  }

  grow(bytes: number, needed: boolean): boolean {
    assert(!this.#isOver && bytes >= 0, "a share that was given back does not grow");
    if (!this.#budget.grow(this, bytes, needed)) return false;
    this.#bytes += bytes;
    return true;
  }

  taken(): void {
    this.#budget.waitsForClient(this, false);
  }

  unread(evict: (reason: ConcordError) => void): void {
    if (this.#isOver) return;
    this.#evict = evict;
    this.#budget.waitsForClient(this, true);
  }

  evict(reason: ConcordError): void {
    assert(this.#evict !== undefined, "a share that waits for its client can be taken from it");
    this.#evict(reason);
    this.release();
  }

  release(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#budget.over();
    this.#budget.waitsForClient(this, false);
    this.#budget.changed(-this.#bytes);
  }
}

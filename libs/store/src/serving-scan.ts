import { ConcordError, type Clock, type Timer } from "@concord/runtime";
import { SERVING_SCAN_DELAY_MS, SERVING_SCAN_PAGE_BYTES, SERVING_SCAN_PAUSE_MS, SERVING_SCAN_REST_FACTOR } from "./limits.ts";
import type { Scan } from "./scan-sums.ts";
import type { StoredKeys } from "./stored-keys.ts";

export interface ServingScanContext {
  readonly clock: Clock;
  readonly entries: number;
  readonly scan: Scan;
  /** Every key that the scan has read and every key that a checkpoint has put since it began. */
  readonly keys: StoredKeys;
  /** False: a checkpoint is being made, and `wake` is called at its end. */
  readonly mayRead: () => boolean;
  /** Runs a read that no checkpoint overlaps. */
  readonly run: (read: Promise<void>) => void;
  /** Everything was read. */
  readonly onEnd: () => Promise<void>;
}

/** The scan while the store serves: a page at a time between checkpoints, at rest for most of the time. */
export class ServingScan {
  readonly scan: Scan;
  readonly keys: StoredKeys;
  readonly #context: ServingScanContext;
  /** Undefined: a page is read, or is due once a checkpoint has ended. */
  #rest: Timer | undefined;
  /** Stays at the end of the scan. */
  #isReading = false;
  #isStopped = false;

  constructor(context: ServingScanContext) {
    this.#context = context;
    this.scan = context.scan;
    this.keys = context.keys;
    this.#restFor(SERVING_SCAN_DELAY_MS);
  }

  /** A checkpoint has ended. */
  wake(): void {
    if (this.#rest !== undefined || this.#isReading || this.#isStopped || !this.#context.mayRead()) return;
    this.#isReading = true;
    this.#context.run(this.#read());
  }

  stop(): void {
    this.#isStopped = true;
    this.#rest?.cancel();
  }

  #restFor(ms: number): void {
    if (this.#isStopped) return;
    this.#rest = this.#context.clock.setTimer(ms, () => {
      this.#rest = undefined;
      this.wake();
    });
  }

  async #read(): Promise<void> {
    const { clock, entries, onEnd } = this.#context;
    const startedMs = clock.monotonicMs();
    if ((await this.#readPage(entries)) === "read all") return onEnd();
    this.#isReading = false;
    this.#restFor(Math.max(SERVING_SCAN_PAUSE_MS, SERVING_SCAN_REST_FACTOR * (clock.monotonicMs() - startedMs)));
  }

  /** A store that has no descriptor for a page reads it after the next rest: nothing waits for a scan. */
  async #readPage(entries: number): Promise<"read all" | "goes on"> {
    try {
      return (await this.scan.readPage({ entries, bytes: SERVING_SCAN_PAGE_BYTES })) ? "goes on" : "read all";
    } catch (thrown) {
      if (thrown instanceof ConcordError && thrown.code === "OVERLOADED") return "goes on";
      throw thrown;
    }
  }
}

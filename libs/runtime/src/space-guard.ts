import type { Clock } from "./clock.ts";
import type { Disk } from "./disk.ts";
import { ConcordError } from "./errors.ts";
import type { Log, MetricDefinition, Metrics } from "./observe.ts";
import { Rounds } from "./rounds.ts";

/** While there is room it is measured once in so long. */
export const SPACE_MEASURED_MS = 500;
/** How long a caller should wait when there is no room. */
const SPACE_RETRY_MS = 1_000;

export const SPACE_METRICS = [
  { name: "disk_free_bytes", kind: "gauge", help: "Least room on a disk that new data goes to.", labels: [] },
] as const satisfies readonly MetricDefinition[];

export interface SpaceGuardOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** All that new data goes to. */
  readonly disks: readonly Disk[];
  /** With less room than this nothing new is admitted: it is for what frees room, and for the stores themselves. 0: always admitted. */
  readonly lowBytes: number;
}

/** Admits new data while the disks have room above a low-water mark. Reads, deletes and background work do not ask. */
export class SpaceGuard {
  readonly #options: SpaceGuardOptions;
  readonly #measuring = new Rounds(() => this.#measure());
  #measuredMs = Number.NEGATIVE_INFINITY;
  #freeBytes = Number.POSITIVE_INFINITY;
  #isLow = false;

  constructor(options: SpaceGuardOptions) {
    this.#options = options;
  }

  /** STORAGE_FULL, applied no. Room that was freed before the call is seen. */
  async admit(): Promise<void> {
    const { clock, lowBytes } = this.#options;
    if (lowBytes === 0) return;
    if (this.#isLow || clock.monotonicMs() - this.#measuredMs >= SPACE_MEASURED_MS) await this.#measuring.join();
    if (!this.#isLow) return;
    throw new ConcordError(
      "STORAGE_FULL",
      `the disk has ${this.#freeBytes} bytes left, and ${lowBytes} are kept free: delete or add room`,
      {
        applied: "no",
        metadata: { freeBytes: String(this.#freeBytes), lowBytes: String(lowBytes) },
        retryAfterMs: SPACE_RETRY_MS,
      },
    );
  }

  /** A disk that cannot be measured refuses nothing by that. */
  async #measure(): Promise<void> {
    const { clock, log, metrics, disks, lowBytes } = this.#options;
    const measured = await Promise.all(disks.map((disk) => disk.freeBytes().catch(() => Number.POSITIVE_INFINITY)));
    this.#freeBytes = Math.min(...measured);
    this.#measuredMs = clock.monotonicMs();
    if (Number.isFinite(this.#freeBytes)) metrics.gauge("disk_free_bytes", this.#freeBytes);
    const isLow = this.#freeBytes < lowBytes;
    if (isLow && !this.#isLow) log.error("the disk is almost full: new data is refused", { freeBytes: this.#freeBytes, lowBytes });
    if (!isLow && this.#isLow) log.info("the disk has room again", { freeBytes: this.#freeBytes, lowBytes });
    this.#isLow = isLow;
  }
}

import type { Clock } from "./clock.ts";
import type { Disk } from "./disk.ts";
import { ConcordError, toConcordError } from "./errors.ts";
import type { Log, MetricDefinition, Metrics } from "./observe.ts";
import { Rounds } from "./rounds.ts";
import type { SpaceReserve } from "./space-reserve.ts";
import { every, Task, type Tasks } from "./task.ts";

/** Space is measured once in so long. */
export const SPACE_MEASURED_MS = 500;
/** How long a caller should wait when there is no room. */
const SPACE_RETRY_MS = 1_000;

export const SPACE_METRICS = [
  { name: "disk_free_bytes", kind: "gauge", help: "Least room on a disk that new data goes to.", labels: [] },
  {
    name: "disk_reserve_bytes",
    kind: "gauge",
    help: "Room that is kept for the store itself; released when the disk is full.",
    labels: [],
  },
] as const satisfies readonly MetricDefinition[];

export interface SpaceGuardOptions {
  /** Service whose disks these are. */
  readonly service: string;
  readonly tasks?: Tasks | undefined;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** All that new data goes to. */
  readonly disks: readonly Disk[];
  /** With less room than this nothing new is admitted: it is for what frees room, and for the stores themselves. 0: always admitted. */
  readonly lowBytes: number;
  /** On one of the disks. */
  readonly reserve?: SpaceReserve;
}

/** Of one disk. */
interface Space {
  readonly freeBytes: number;
  /** For what frees space, the stores, and what the reserve lacks. */
  readonly keptBytes: number;
}

const UNMEASURED: Space = { freeBytes: Number.POSITIVE_INFINITY, keptBytes: 0 };

const marginOf = ({ freeBytes, keptBytes }: Space): number => freeBytes - keptBytes;

/**
 * Admits new data while the disks have room above a low-water mark. Reads, deletes and background work do not ask. Between `open` and
 * `close` it keeps the reserve. On a full disk the stores that open get three quarters of it; those that are open get a block at a time, down to half,
 * lest another program that fills the disk takes what the next start needs. The rest is for single writes. What is missing of it is not for new data either.
 */
export class SpaceGuard {
  readonly #options: SpaceGuardOptions;
  readonly #measuring = new Rounds(() => this.#measure());
  #measuredMs = Number.NEGATIVE_INFINITY;
  /** Of the disk that is nearest to its mark. */
  #tightest: Space = UNMEASURED;
  /** Of the reserve's disk. */
  #reservedFreeBytes = Number.POSITIVE_INFINITY;
  #isLow = false;
  readonly #task: Task;

  constructor(options: SpaceGuardOptions) {
    this.#options = options;
    const { service, clock, log, tasks } = options;
    this.#task = new Task({
      clock,
      tasks,
      name: `${service}: space of the disks`,
      firstAfterMs: SPACE_MEASURED_MS,
      ...every(SPACE_MEASURED_MS, () => this.#measuring.join().then(() => this.#extend())),
      failed: ({ message }) => log.warn("the space of the disks is not measured", { reason: message }),
      progress: () => ({ isLow: this.#isLow }),
    });
  }

  /** Before the stores open: on a full disk they get the reserve. */
  async open(): Promise<void> {
    const { lowBytes, reserve } = this.#options;
    if (lowBytes === 0 && reserve === undefined) return;
    await reserve?.find().catch(() => undefined);
    await this.#readFree();
    if (reserve !== undefined && reserve.heldBytes > reserve.keptBytes && this.#reservedFreeBytes < reserve.neededBytes) {
      this.#giveUp(reserve, "the disk is full: the reserve goes to the stores that open");
      await this.#reserved(() => reserve.release());
    }
    await this.#measuring.join();
    this.#task.start();
  }

  /** STORAGE_FULL, applied no. Room that was freed before the call is seen. */
  async admit(): Promise<void> {
    const { clock, lowBytes } = this.#options;
    if (lowBytes === 0) return;
    if (this.#isLow || clock.monotonicMs() - this.#measuredMs >= SPACE_MEASURED_MS) await this.#measuring.join();
    if (!this.#isLow) return;
    const { freeBytes, keptBytes } = this.#tightest;
    throw new ConcordError("STORAGE_FULL", `the disk has ${freeBytes} bytes left, and ${keptBytes} are kept free: delete or add room`, {
      applied: "no",
      metadata: { freeBytes: String(freeBytes), lowBytes: String(keptBytes) },
      retryAfterMs: SPACE_RETRY_MS,
    });
  }

  /** New data was refused when space was measured last. */
  get isLow(): boolean {
    return this.#isLow;
  }

  close(): void {
    void this.#task.stop();
  }

  /** A disk that cannot be measured refuses nothing by that. */
  async #measure(): Promise<void> {
    await this.#readFree();
    const { clock, log, metrics, reserve } = this.#options;
    if (reserve?.canShrink === true && this.#reservedFreeBytes < reserve.blockBytes) {
      this.#giveUp(reserve, "the disk is full: a block of the reserve goes to the stores");
      await this.#reserved(() => reserve.shrink());
      await this.#readFree();
    }
    this.#measuredMs = clock.monotonicMs();
    const { freeBytes, keptBytes } = this.#tightest;
    if (Number.isFinite(freeBytes)) metrics.gauge("disk_free_bytes", freeBytes);
    if (reserve !== undefined) metrics.gauge("disk_reserve_bytes", reserve.heldBytes);
    const isLow = this.#options.lowBytes > 0 && freeBytes < keptBytes;
    if (isLow && !this.#isLow) log.error("the disk is almost full: new data is refused", { freeBytes, lowBytes: keptBytes });
    if (!isLow && this.#isLow) log.info("the disk has room again", { freeBytes, lowBytes: keptBytes });
    this.#isLow = isLow;
  }

  #giveUp({ heldBytes }: SpaceReserve, message: string): void {
    this.#options.log.error(message, { freeBytes: this.#reservedFreeBytes, reserveBytes: heldBytes });
  }

  async #readFree(): Promise<void> {
    const { disks, lowBytes, reserve } = this.#options;
    const measured = await Promise.all(disks.map((disk) => disk.freeBytes().catch(() => Number.POSITIVE_INFINITY)));
    const spaces = measured.map((freeBytes, at): Space => {
      return { freeBytes, keptBytes: lowBytes + (disks[at] === reserve?.disk ? reserve!.missingBytes : 0) };
    });
    this.#tightest = spaces.reduce((left, right) => (marginOf(right) < marginOf(left) ? right : left), UNMEASURED);
    this.#reservedFreeBytes = measured.find((_, at) => disks[at] === reserve?.disk) ?? Number.POSITIVE_INFINITY;
  }

  /** A part of the reserve that is missing, where that leaves enough. */
  async #extend(): Promise<void> {
    const { reserve, lowBytes } = this.#options;
    if (reserve === undefined || reserve.missingBytes === 0 || this.#task.signal.aborted || !Number.isFinite(this.#reservedFreeBytes))
      return;
    if (this.#reservedFreeBytes - reserve.nextBytes < Math.max(lowBytes, reserve.neededBytes * 2)) return;
    await this.#reserved(() => reserve.grow());
  }

  /** The reserve is a precaution: what it cannot do stops nothing. */
  async #reserved(action: () => Promise<void>): Promise<void> {
    await action().catch((thrown: unknown) =>
      this.#options.log.warn("the reserve on the disk could not be changed", { reason: toConcordError(thrown).message }),
    );
  }
}

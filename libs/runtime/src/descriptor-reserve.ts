import { sleep, type Clock } from "./clock.ts";
import { ConcordError } from "./errors.ts";

/** Descriptors that are kept: more than the opening of a LevelDB and the change of a journal's segment need at the same time. */
export const DESCRIPTOR_RESERVE = 16;
/** Maximum wait of a read for a descriptor, because connections that are at rest end in less. */
export const DESCRIPTOR_WAIT_MS = 5_000;
/** Maximum wait of one write of a file. A store repeats it after that for as long as it is open; an upload is refused. */
export const DESCRIPTOR_WRITE_WAIT_MS = 30_000;
const RETRY_MS = 50;
/** Minimum age of a release before the reserve is filled again: whatever is being opened has it until then. */
const REFILL_AFTER_MS = 1_000;

const CODES: ReadonlySet<unknown> = new Set(["EMFILE", "ENFILE"]);
/** LevelDB reports errors of the system by their texts. */
const TEXTS = /too many open files/i;

/** The process, or the machine, has as many files open as it may have. */
export function isOutOfDescriptors(thrown: unknown): boolean {
  if (!(thrown instanceof Error)) return false;
  return CODES.has((thrown as { code?: unknown }).code) || TEXTS.test(thrown.message) || isOutOfDescriptors(thrown.cause);
}

/** The disk has no space, or the process no descriptor, for a call that changed nothing and may be made again: STORAGE_FULL, OVERLOADED. */
export function isShortage(thrown: unknown): boolean {
  return thrown instanceof ConcordError && (thrown.code === "STORAGE_FULL" || thrown.code === "OVERLOADED");
}

export interface DescriptorReserveOptions {
  readonly clock: Clock;
  /** Opens something that is always there; throws when no descriptor is free. */
  readonly open: () => number;
  readonly close: (descriptor: number) => void;
}

/** Descriptors that a process keeps open, so that its stores can open files when connections have all others. */
export class DescriptorReserve {
  readonly #options: DescriptorReserveOptions;
  readonly #held: number[] = [];
  #releasedMs = Number.NEGATIVE_INFINITY;

  constructor(options: DescriptorReserveOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#held.length;
  }

  /** Fills the reserve as far as descriptors are free. */
  fill(): void {
    if (this.#options.clock.monotonicMs() - this.#releasedMs < REFILL_AFTER_MS) return;
    try {
      while (this.#held.length < DESCRIPTOR_RESERVE) this.#held.push(this.#options.open());
    } catch (thrown) {
      if (!isOutOfDescriptors(thrown)) throw thrown;
    }
  }

  /** Throws what the system throws unless that many more files can be opened now. */
  demand(count: number): void {
    const opened: number[] = [];
    try {
      while (opened.length < count) opened.push(this.#options.open());
    } finally {
      for (const descriptor of opened) this.#options.close(descriptor);
    }
  }

  /**
   * Runs `act`, which changes nothing when it finds no descriptor. Then the reserve is released and `act` runs again at once, and now and then
   * for `waitMs`. Rejects with what `act` rejected with last.
   */
  async within<Answer>(act: () => Promise<Answer>, waitMs = DESCRIPTOR_WAIT_MS): Promise<Answer> {
    const { clock } = this.#options;
    const untilMs = clock.monotonicMs() + waitMs;
    for (let isFirst = true; ; isFirst = false) {
      try {
        const answer = await act();
        this.fill();
        return answer;
      } catch (thrown) {
        if (!isOutOfDescriptors(thrown)) throw thrown;
        const released = this.#release();
        if (!isFirst && clock.monotonicMs() >= untilMs) throw thrown;
        if (!released) await sleep(clock, RETRY_MS);
      }
    }
  }

  /** The pause of a caller that waits for something else than a descriptor. */
  pause(ms: number): Promise<void> {
    return sleep(this.#options.clock, ms);
  }

  /** False: there was nothing to release. */
  #release(): boolean {
    if (this.#held.length === 0) return false;
    this.#releasedMs = this.#options.clock.monotonicMs();
    for (const descriptor of this.#held.splice(0)) this.#options.close(descriptor);
    return true;
  }
}

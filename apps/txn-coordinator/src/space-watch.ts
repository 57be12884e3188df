import { ConcordError, toConcordError, type Clock, type Timer } from "@concord/runtime";
import { SPACE_ASKED_EVERY_MS } from "./limits.ts";

export interface SpaceWatchOptions {
  readonly clock: Clock;
  /** STORAGE_FULL while the storage takes no new data. */
  readonly admit: () => Promise<void>;
}

/** What the storage says of its disks, asked once in a while for all commits. A storage that does not answer refuses nothing by that. */
export class SpaceWatch {
  readonly #options: SpaceWatchOptions;
  #refusal: ConcordError | undefined;
  #timer: Timer | undefined;
  #isStopped = false;

  constructor(options: SpaceWatchOptions) {
    this.#options = options;
  }

  /** With what commits are refused that add rows; undefined: there is space. */
  get refusal(): ConcordError | undefined {
    const now = this.#refusal;
    if (now === undefined) return undefined;
    return new ConcordError(now.code, now.message, { applied: "no", metadata: now.metadata, retryAfterMs: SPACE_ASKED_EVERY_MS });
  }

  /** Resolves when it was asked for the first time. */
  async start(): Promise<void> {
    await this.#ask();
    this.#askLater();
  }

  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
  }

  #askLater(): void {
    if (this.#isStopped) return;
    this.#timer = this.#options.clock.setTimer(SPACE_ASKED_EVERY_MS, () => void this.#ask().then(() => this.#askLater()));
  }

  async #ask(): Promise<void> {
    try {
      await this.#options.admit();
      this.#refusal = undefined;
    } catch (thrown) {
      const error = toConcordError(thrown);
      this.#refusal = error.code === "STORAGE_FULL" ? error : undefined;
    }
  }
}

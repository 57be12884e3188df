import { ConcordError, every, Task, type Clock, type Tasks } from "@concord/runtime";
import { SPACE_ASKED_EVERY_MS } from "./limits.ts";

export interface SpaceWatchOptions {
  readonly clock: Clock;
  readonly tasks?: Tasks | undefined;
  /** STORAGE_FULL while the storage takes no new data. */
  readonly admit: () => Promise<void>;
}

/** What the storage says of its disks, asked once in a while for all commits. A storage that does not answer refuses nothing by that. */
export class SpaceWatch {
  readonly #task: Task;
  readonly #asked = Promise.withResolvers<void>();
  #refusal: ConcordError | undefined;

  constructor({ admit, ...options }: SpaceWatchOptions) {
    this.#task = new Task({
      ...options,
      name: "transactions: space of the storage",
      ...every(SPACE_ASKED_EVERY_MS, () => admit().then(() => this.#answered(undefined))),
      failed: (error) => this.#answered(error.code === "STORAGE_FULL" ? error : undefined),
    });
  }

  /** With what commits are refused that add rows; undefined: there is space. */
  get refusal(): ConcordError | undefined {
    const now = this.#refusal;
    if (now === undefined) return undefined;
    return new ConcordError(now.code, now.message, { applied: "no", metadata: now.metadata, retryAfterMs: SPACE_ASKED_EVERY_MS });
  }

  /** Resolves when it was asked for the first time. */
  async start(): Promise<void> {
    this.#task.start();
    await this.#asked.promise;
  }

  stop(): void {
    void this.#task.stop();
    this.#asked.resolve();
  }

  #answered(refusal: ConcordError | undefined): void {
    this.#refusal = refusal;
    this.#asked.resolve();
  }
}

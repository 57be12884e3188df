import type { StorageBackend } from "@concord/ports";
import { every, Task, type Environment } from "@concord/runtime";
import { PURGE_INTERVAL_MS, PURGE_MARGIN_MS } from "../limits.ts";

export interface OutcomeRetentionOptions {
  readonly backend: StorageBackend;
  readonly environment: Environment;
  readonly outcomeRetentionMs: number;
}

/** Has the backend remove outcomes that are past their retention (TXD7), at an interval, in the background. */
export class OutcomeRetention {
  readonly #task: Task;

  constructor({ backend, environment, outcomeRetentionMs }: OutcomeRetentionOptions) {
    const { clock, log, metrics } = environment;
    this.#task = new Task({
      ...environment,
      name: "storage: old outcomes",
      firstAfterMs: PURGE_INTERVAL_MS,
      ...every(PURGE_INTERVAL_MS, async () => {
        metrics.count("storage_outcomes_purged_total", await backend.purge(clock.nowMs() - outcomeRetentionMs - PURGE_MARGIN_MS));
      }),
      failed: ({ message }) => log.warn("purging old outcomes failed", { reason: message }),
    });
  }

  start(): void {
    this.#task.start();
  }

  /** No further run begins. */
  stop(): void {
    void this.#task.stop();
  }
}

import type { StorageBackend } from "@concord/ports";
import { toConcordError, type Environment, type Timer } from "@concord/runtime";
import { PURGE_INTERVAL_MS, PURGE_MARGIN_MS } from "../limits.ts";

export interface OutcomeRetentionOptions {
  readonly backend: StorageBackend;
  readonly environment: Environment;
  readonly outcomeRetentionMs: number;
}

/** Has the backend remove outcomes that are past their retention (TXD7), at an interval, in the background. */
export class OutcomeRetention {
  readonly #options: OutcomeRetentionOptions;
  #state: { readonly kind: "stopped" } | { readonly kind: "waiting"; readonly timer: Timer } | { readonly kind: "running" } = {
    kind: "stopped",
  };

  constructor(options: OutcomeRetentionOptions) {
    this.#options = options;
  }

  start(): void {
    const timer = this.#options.environment.clock.setTimer(PURGE_INTERVAL_MS, () => void this.#run());
    this.#state = { kind: "waiting", timer };
  }

  /** No further run begins. */
  stop(): void {
    if (this.#state.kind === "waiting") this.#state.timer.cancel();
    this.#state = { kind: "stopped" };
  }

  async #run(): Promise<void> {
    const { backend, environment, outcomeRetentionMs } = this.#options;
    this.#state = { kind: "running" };
    try {
      const rows = await backend.purge(environment.clock.nowMs() - outcomeRetentionMs - PURGE_MARGIN_MS);
      environment.metrics.count("storage_outcomes_purged_total", rows);
    } catch (thrown) {
      environment.log.warn("purging old outcomes failed", { reason: toConcordError(thrown).message });
    }
    if (this.#state.kind === "running") this.start();
  }
}

import { ConcordError, type MetricDefinition, type Metrics } from "@concord/runtime";
import { openGuidSource, type IdRange, type IdSource } from "@concord/snowflake";
import { leaseWorkerId, type LeaseOptions } from "./worker-lease.ts";

export interface IdGeneratorOptions extends Omit<LeaseOptions, "signal"> {
  readonly metrics: Metrics;
}

export const ID_METRICS: readonly MetricDefinition[] = [
  { name: "ids_generated_total", kind: "counter", help: "Ids given out", labels: [] },
  { name: "ids_workers_lost_total", kind: "counter", help: "Times another process took this one's worker id", labels: [] },
];

type State =
  | { readonly kind: "none" }
  | { readonly kind: "leasing"; readonly source: Promise<IdSource> }
  | { readonly kind: "leased"; readonly source: IdSource };

/** Ids under a worker id of this process, leased with the first call and again when it was lost. */
export class IdGenerator {
  readonly #options: IdGeneratorOptions;
  readonly #stopping = new AbortController();
  /** Worker ids others took from this process: taking them back would go on for ever. */
  readonly #lost = new Set<number>();
  #state: State = { kind: "none" };

  constructor(options: IdGeneratorOptions) {
    this.#options = options;
  }

  /** CLOCK_UNUSABLE; REPLICAS_UNAVAILABLE; OVERLOADED when no worker id is free: nothing is given out then. */
  async generate(count: number, signal: AbortSignal): Promise<{ readonly workerId: number; readonly ranges: readonly IdRange[] }> {
    for (;;) {
      if (this.#stopping.signal.aborted) throw new ConcordError("DRAINING", "ids are made elsewhere from now on");
      const source = await this.#source();
      try {
        const ranges = await source.take(count, signal);
        this.#options.metrics.count("ids_generated_total", count);
        return { workerId: source.workerId, ranges };
      } catch (thrown) {
        if (!(thrown instanceof ConcordError) || thrown.code !== "EPOCH_FENCED") throw thrown;
        this.#lose(source);
      }
    }
  }

  stop(): void {
    this.#stopping.abort();
  }

  #source(): IdSource | Promise<IdSource> {
    if (this.#state.kind !== "none") return this.#state.source;
    const source = this.#lease();
    this.#state = { kind: "leasing", source };
    return source;
  }

  async #lease(): Promise<IdSource> {
    try {
      const lease = await leaseWorkerId({ ...this.#options, signal: this.#stopping.signal }, this.#lost);
      const source = openGuidSource({ ...lease, clock: this.#options.clock });
      this.#state = { kind: "leased", source };
      return source;
    } catch (thrown) {
      this.#state = { kind: "none" };
      throw thrown;
    }
  }

  /** Many calls may hear of the same loss. */
  #lose(source: IdSource): void {
    if (this.#state.kind !== "leased" || this.#state.source !== source) return;
    this.#options.log.warn("worker id lost to another process", { workerId: source.workerId });
    this.#options.metrics.count("ids_workers_lost_total");
    this.#lost.add(source.workerId);
    this.#state = { kind: "none" };
  }
}

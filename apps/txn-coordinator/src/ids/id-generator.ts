import { ConcordError, type Metrics } from "@concord/runtime";
import { openGuidSource, type IdRange, type IdSource } from "@concord/snowflake";
import { ID_LEASE_WORKERS } from "../limits.ts";
import { leaseWorkerId, type LeaseOptions } from "./worker-lease.ts";

export interface IdGeneratorOptions extends Omit<LeaseOptions, "signal"> {
  readonly metrics: Metrics;
}

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
  /** Worker ids whose ids are ahead of the clock, with the time from which they can be used again. */
  readonly #ahead = new Map<number, number>();
  #state: State = { kind: "none" };

  constructor(options: IdGeneratorOptions) {
    this.#options = options;
  }

  /**
   * REPLICAS_UNAVAILABLE; OVERLOADED when no worker id is free: nothing is given out then. A clock that was set back behind the ids already made takes
   * another worker id, which has made none of that time; CLOCK_UNUSABLE where the worker id is configured, or none is left.
   */
  async generate(count: number, signal: AbortSignal): Promise<{ readonly workerId: number; readonly ranges: readonly IdRange[] }> {
    for (;;) {
      if (this.#stopping.signal.aborted) throw new ConcordError("DRAINING", "ids are made elsewhere from now on");
      const source = await this.#source();
      try {
        const ranges = await source.take(count, signal);
        this.#options.metrics.count("ids_generated_total", count);
        return { workerId: source.workerId, ranges };
      } catch (thrown) {
        if (!(thrown instanceof ConcordError)) throw thrown;
        if (thrown.code === "EPOCH_FENCED") this.#lose(source);
        else if (thrown.code === "CLOCK_UNUSABLE") this.#leaveAhead(source, thrown);
        else throw thrown;
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
      const lease = await leaseWorkerId({ ...this.#options, signal: this.#stopping.signal }, this.#excluded());
      const source = openGuidSource({ ...lease, clock: this.#options.clock });
      this.#state = { kind: "leased", source };
      return source;
    } catch (thrown) {
      this.#state = { kind: "none" };
      throw thrown;
    }
  }

  /** Throws the error where no other worker id may be taken. */
  #leaveAhead(source: IdSource, error: ConcordError): void {
    const { workerId, clock, log, metrics } = this.#options;
    const behindMs = Number(error.metadata["behindMs"] ?? Number.NaN);
    if (workerId !== undefined || Number.isNaN(behindMs) || this.#excluded().size + 1 >= ID_LEASE_WORKERS) throw error;
    if (this.#state.kind !== "leased" || this.#state.source !== source) return;
    log.warn("the clock was set back behind the ids of this worker id: another one is leased", { workerId: source.workerId, behindMs });
    metrics.count("ids_workers_changed_total");
    this.#ahead.set(source.workerId, clock.nowMs() + behindMs);
    this.#state = { kind: "none" };
  }

  #excluded(): ReadonlySet<number> {
    const nowMs = this.#options.clock.nowMs();
    for (const [workerId, untilMs] of this.#ahead) if (untilMs <= nowMs) this.#ahead.delete(workerId);
    return new Set([...this.#lost, ...this.#ahead.keys()]);
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

import type { BatchResult } from "@concord/ports";
import { assert, type Clock, type TimeId, type TimestampUs } from "@concord/runtime";
import { IDEMPOTENCY_ENTRIES_MAX, IDEMPOTENCY_WINDOW_MS } from "./limits.ts";

export interface KnownBatch {
  readonly timestampUs: TimestampUs;
  readonly digest: string;
  state:
    | { readonly kind: "running"; readonly result: Promise<BatchResult> }
    | { readonly kind: "applied"; readonly result: BatchResult }
    | { readonly kind: "failed" };
}

/** The batches this node has run lately, by id, oldest first. In memory: after a restart replay has completed what was logged. */
export class OutcomeWindow {
  readonly #clock: Clock;
  readonly #known = new Map<TimeId, { readonly batch: KnownBatch; readonly atMs: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  find(id: TimeId): KnownBatch | undefined {
    this.#expire();
    return this.#known.get(id)?.batch;
  }

  add(id: TimeId, batch: KnownBatch): void {
    const before = this.#known.get(id)?.batch;
    assert(before === undefined || before.timestampUs === batch.timestampUs, "a repeat keeps the first timestamp (LB4)");
    assert(before === undefined || before.digest === batch.digest, "a repeat keeps the first payload (LBD8)");
    assert(before?.state.kind !== "running", "a batch runs once at a time (LB4)");
    assert(before?.state.kind !== "applied", "an applied batch is not run again (LBD8)");
    this.#known.delete(id);
    this.#known.set(id, { batch, atMs: this.#clock.monotonicMs() });
    this.#expire();
  }

  #expire(): void {
    const expiredMs = this.#clock.monotonicMs() - IDEMPOTENCY_WINDOW_MS;
    for (const [id, { batch, atMs }] of this.#known) {
      if (this.#known.size <= IDEMPOTENCY_ENTRIES_MAX && atMs > expiredMs) return;
      if (batch.state.kind === "running") return;
      this.#known.delete(id);
    }
  }
}

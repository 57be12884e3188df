// One partition in this process: closed, on its way here, open, or on its way out.
import type { PartitionWorker } from "@concord/dedup";
import type { MessageLog } from "@concord/ports";
import { assert, ConcordError, sleep, toConcordError, type Clock, type Log, type Metrics } from "@concord/runtime";
import { RELEASE_DRAIN_MS } from "../limits.ts";

export interface SlotOptions {
  readonly partition: number;
  /** A worker for one tenure of the partition. */
  readonly open: (partition: number) => PartitionWorker;
  readonly messages: MessageLog;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** The worker of an open partition has stopped by itself. */
  readonly onStopped: (slot: Slot, worker: PartitionWorker, reason: ConcordError) => void;
}

type State =
  | { readonly kind: "closed" }
  /** Others are asked to release it, then it is fenced and its window brought up to the output. */
  | { readonly kind: "opening"; worker: PartitionWorker | undefined; readonly settled: PromiseWithResolvers<void> }
  | { readonly kind: "open"; readonly worker: PartitionWorker }
  /** Takes no new calls; `settled`: released. */
  | { readonly kind: "closing"; readonly worker: PartitionWorker | undefined; readonly settled: PromiseWithResolvers<void> };

const CLOSED: State = { kind: "closed" };

export class Slot {
  readonly partition: number;
  /** While this process did not own the partition, one before it in the ranks worked: none after it serves. */
  follows = false;
  /** Since when the partition is served here without being this process's own; undefined: it is. */
  unownedSinceMs: number | undefined;
  /**
   * The process that it was released to, and until when that alone may open it, whatever this one thinks of the owner. `works`: this one knows that it does, so a
   * failure of it is a new one.
   */
  released: { readonly to: string; readonly untilMs: number; works: boolean } | undefined;
  readonly #options: SlotOptions;
  #state: State = CLOSED;
  /** Calls between their append and their results. */
  #uses = 0;
  #idle: PromiseWithResolvers<void> | undefined;

  constructor(options: SlotOptions) {
    this.#options = options;
    this.partition = options.partition;
  }

  get isClosed(): boolean {
    return this.#state.kind === "closed";
  }

  /** Open, or on its way here. */
  get isServed(): boolean {
    return this.#state.kind === "open" || this.#state.kind === "opening";
  }

  /** Of the present tenure. */
  get worker(): PartitionWorker | undefined {
    return this.#state.kind === "open" || this.#state.kind === "opening" ? this.#state.worker : undefined;
  }

  /** Resolves when the partition is open or closed; undefined: it is. Never rejects. */
  get moving(): Promise<void> | undefined {
    return this.#state.kind === "opening" || this.#state.kind === "closing" ? this.#state.settled.promise : undefined;
  }

  /** A call appends here and waits for its results; ends when the answer is called. */
  enter(): () => void {
    assert(this.#state.kind === "open", "a call enters an open partition");
    this.#uses += 1;
    return () => {
      this.#uses -= 1;
      if (this.#uses === 0) this.#idle?.resolve();
    };
  }

  /** Resolves when it runs, or was closed meanwhile; rejects when its worker stopped. `ask`: resolves when no other process that could be asked serves it. */
  async open(ask: () => Promise<void>, mayOpen: () => boolean): Promise<void> {
    assert(this.#state.kind === "closed", "a closed partition is opened");
    const { open, clock, log, metrics, onStopped } = this.#options;
    const { partition } = this;
    const state: Extract<State, { kind: "opening" }> = { kind: "opening", worker: undefined, settled: Promise.withResolvers() };
    this.#state = state;
    this.unownedSinceMs = undefined;
    const beganMs = clock.monotonicMs();
    try {
      await ask();
      if (this.#state !== state) return;
      if (!mayOpen()) {
        this.#state = CLOSED;
        return;
      }
      const worker = open(partition);
      state.worker = worker;
      void worker.whenStopped().then((reason) => onStopped(this, worker, reason));
      await worker.start().finally(() => {
        if (this.#state === state) this.#state = { kind: "open", worker };
      });
      if (this.worker !== worker) return;
      metrics.gauge("dedup_partition_running", 1, { partition: String(partition) });
      log.info("a partition runs", { partition, afterMs: Math.round(clock.monotonicMs() - beganMs) });
    } finally {
      state.settled.resolve();
    }
  }

  /**
   * New calls wait, those that have appended get their results (`drains`: for RELEASE_DRAIN_MS at most), the batch in flight ends, then the log is left to
   * the next owner. Never rejects.
   */
  async end(drains: boolean): Promise<void> {
    const { messages, metrics, log } = this.#options;
    const { partition } = this;
    if (this.#state.kind === "closed") return;
    if (this.#state.kind === "closing") return await this.#state.settled.promise;
    const { worker } = this.#state;
    const settled = Promise.withResolvers<void>();
    this.#state = { kind: "closing", worker, settled };
    try {
      if (drains) await this.#drained();
      await worker?.stop();
      await messages.release(partition);
    } catch (thrown) {
      log.error("a partition was not closed well", { partition, reason: toConcordError(thrown).message });
    } finally {
      this.#state = CLOSED;
      this.unownedSinceMs = undefined;
      metrics.gauge("dedup_partition_running", 0, { partition: String(partition) });
      settled.resolve();
    }
  }

  async #drained(): Promise<void> {
    if (this.#uses === 0) return;
    this.#idle = Promise.withResolvers();
    const over = new AbortController();
    const idle = this.#idle.promise.then(() => over.abort());
    await Promise.race([idle, sleep(this.#options.clock, RELEASE_DRAIN_MS, over.signal)]);
    this.#idle = undefined;
  }
}

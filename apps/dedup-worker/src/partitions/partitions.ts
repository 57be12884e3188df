import type { MessageLog } from "@concord/ports";
import { partitionOfId, type PartitionStatistics, type PartitionWorker } from "@concord/dedup";
import { ConcordError, toConcordError, type Clock, type Log, type Metrics, type Timer } from "@concord/runtime";
import { GAUGE_INTERVAL_MS } from "../limits.ts";

export interface PartitionsOptions {
  /** By partition. */
  readonly workers: readonly PartitionWorker[];
  readonly messages: MessageLog;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** The workers of all partitions. One that stopped leaves the others alone (I3). */
export class Partitions {
  readonly #options: PartitionsOptions;
  #timer: Timer | undefined;
  #isStopped = false;

  constructor(options: PartitionsOptions) {
    this.#options = options;
  }

  /** True while every partition works and its log can be reached. */
  get ready(): boolean {
    return this.#options.workers.every(({ state }) => state.kind === "running" || state.kind === "rebuilding");
  }

  /** Fence, rebuild, run, all at the same time. Rejects when no partition runs; one that does not is stopped and says so. */
  async start(): Promise<void> {
    const { workers, log } = this.#options;
    for (const worker of workers) this.#watch(worker);
    const started = await Promise.allSettled(workers.map((worker) => worker.start()));
    const failures = started.flatMap((outcome) => (outcome.status === "rejected" ? [toConcordError(outcome.reason)] : []));
    if (failures.length === workers.length) throw failures[0]!;
    log.info("partitions run", { running: workers.length - failures.length, stopped: failures.length });
    await this.#measure();
  }

  worker(partition: number): PartitionWorker {
    const worker = this.#options.workers[partition];
    if (worker !== undefined) return worker;
    throw new ConcordError("PARTITION_UNKNOWN", `there is no partition ${partition} of ${this.#options.workers.length}`);
  }

  /** PARTITION_STOPPED with the reason when it does not work. */
  working(partition: number): PartitionWorker {
    const worker = this.worker(partition);
    if (worker.state.kind !== "stopped") return worker;
    const { metadata, message } = worker.state.reason;
    throw new ConcordError("PARTITION_STOPPED", message, { applied: "no", metadata: { ...metadata, partition: String(partition) } });
  }

  /** In the order of `ids`. */
  async seen(ids: readonly Uint8Array[]): Promise<readonly boolean[]> {
    const { workers } = this.#options;
    const places = ids.map((id) => partitionOfId(id, workers.length));
    const wanted = [...new Set(places)].map((partition) => ({
      worker: this.working(partition),
      at: places.flatMap((place, at) => (place === partition ? [at] : [])),
    }));
    const seen = ids.map(() => false);
    await Promise.all(
      wanted.map(async ({ worker, at }) => {
        const answers = await worker.seen(at.map((place) => ids[place]!));
        at.forEach((place, index) => (seen[place] = answers[index]!));
      }),
    );
    return seen;
  }

  statistics(): Promise<readonly PartitionStatistics[]> {
    return Promise.all(this.#options.workers.map((worker) => worker.statistics()));
  }

  /** After the batches in flight. Never rejects. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#timer?.cancel();
    const { workers, log } = this.#options;
    const stopped = await Promise.allSettled(workers.map((worker) => worker.stop()));
    stopped.forEach((outcome, partition) => {
      if (outcome.status === "rejected") log.warn("a partition did not stop well", { partition, reason: String(outcome.reason) });
    });
  }

  #watch(worker: PartitionWorker): void {
    const { metrics } = this.#options;
    void worker.whenStopped().then(() => {
      metrics.gauge("dedup_partition_running", 0, { partition: String(worker.partition) });
    });
  }

  async #measure(): Promise<void> {
    const { clock, log, messages, metrics } = this.#options;
    try {
      for (const { partition, state, lag, window } of await this.statistics()) {
        const labels = { partition: String(partition) };
        metrics.gauge("dedup_partition_running", state.kind === "stopped" || state.kind === "unavailable" ? 0 : 1, labels);
        // Of the output's offsets at least as many must be kept as the window has ids (DDD10).
        const { start } = await messages.bounds("output", partition);
        metrics.gauge("dedup_rebuildable", window.appliedOutput - start >= BigInt(window.ids) ? 1 : 0, labels);
        metrics.gauge("dedup_partition_lag", Number(lag), labels);
        metrics.gauge("dedup_window_ids", window.ids, labels);
        metrics.gauge("dedup_window_seconds", window.windowMs / 1000, labels);
        metrics.gauge("dedup_window_disk_bytes", window.diskBytes, labels);
        metrics.gauge("dedup_window_memory_bytes", window.memoryBytes, labels);
      }
    } catch (thrown) {
      log.warn("statistics cannot be read", { reason: String(thrown) });
    }
    // Stopped meanwhile: a timer set now would never be cancelled.
    if (!this.#isStopped) this.#timer = clock.setTimer(GAUGE_INTERVAL_MS, () => void this.#measure());
  }
}

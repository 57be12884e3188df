// One tenure of a partition in this process.
import type { PartitionWorker } from "@concord/dedup";
import type { Ended, Unit } from "@concord/ownership";
import type { MessageLog } from "@concord/ports";
import { sleep, type Clock, type Log, type Metrics } from "@concord/runtime";

export interface PartitionUnitOptions {
  readonly worker: PartitionWorker;
  readonly messages: MessageLog;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

export class PartitionUnit implements Unit {
  readonly worker: PartitionWorker;
  readonly ended: Promise<Ended>;
  readonly #options: PartitionUnitOptions;
  readonly #overtaken = Promise.withResolvers<Ended>();
  /** Calls between their append and their results. */
  #uses = 0;
  #idle: PromiseWithResolvers<void> | undefined;

  constructor(options: PartitionUnitOptions) {
    this.#options = options;
    this.worker = options.worker;
    const stopped = this.worker.whenStopped().then(({ metadata }): Ended => {
      this.#measure(0);
      return metadata["code"] === "NOT_OWNER" ? "fenced" : "failed";
    });
    this.ended = Promise.race([stopped, this.#overtaken.promise]);
  }

  async open(): Promise<void> {
    const { clock, log, worker } = this.#options;
    const beganMs = clock.monotonicMs();
    await worker.start();
    this.#measure(1);
    log.info("a partition runs", { partition: worker.partition, afterMs: Math.round(clock.monotonicMs() - beganMs) });
  }

  /** A call appends here and waits for its results; ends when the answer is called. A drain waits for it. */
  enter(): () => void {
    this.#uses += 1;
    return () => {
      this.#uses -= 1;
      if (this.#uses === 0) this.#idle?.resolve();
    };
  }

  async drain(graceMs: number): Promise<void> {
    if (this.#uses > 0 && graceMs > 0) {
      this.#idle = Promise.withResolvers();
      const over = new AbortController();
      const idle = this.#idle.promise.then(() => over.abort());
      await Promise.race([idle, sleep(this.#options.clock, graceMs, over.signal)]);
    }
    await this.stop();
  }

  /** The batch in flight ends, then the log is left to the next owner. */
  async stop(): Promise<void> {
    const { worker, messages } = this.#options;
    try {
      await worker.stop();
      await messages.release(worker.partition);
    } finally {
      this.#measure(0);
    }
  }

  /** Without input nothing is published, so nothing else would show that another worker has taken the partition over: it would be read here as it was then. */
  async confirm(): Promise<boolean> {
    const { worker, messages } = this.#options;
    const isHeld = (await messages.isHeld?.(worker.partition)) ?? true;
    if (!isHeld) this.#overtaken.resolve("fenced");
    return isHeld;
  }

  #measure(running: 0 | 1): void {
    const { worker, metrics } = this.#options;
    metrics.gauge("dedup_partition_running", running, { partition: String(worker.partition) });
  }
}

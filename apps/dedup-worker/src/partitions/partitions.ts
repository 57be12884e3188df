import type { MessageLog } from "@concord/ports";
import { partitionOfId, type PartitionStatistics, type PartitionWorker } from "@concord/dedup";
import { ConcordError, toConcordError, type Clock, type Log, type Metrics, type Timer } from "@concord/runtime";
import { GAUGE_INTERVAL_MS, REOPEN_PAUSE_MS, TAKE_OVER_PAUSE_MS } from "../limits.ts";
import type { Ownership, Worker } from "./ownership.ts";

export interface PartitionsOptions {
  readonly count: number;
  /** A worker for one tenure of a partition. */
  readonly open: (partition: number) => PartitionWorker;
  readonly ownership: Ownership;
  readonly messages: MessageLog;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** One partition as this process sees it. */
interface Slot {
  readonly partition: number;
  /** Undefined: another process owns the partition, or none does. */
  worker: PartitionWorker | undefined;
  /** Openings and ends, one at a time. */
  turn: Promise<void>;
}

/** The workers of the partitions that this process owns. One that stopped leaves the others alone (I3). */
export class Partitions {
  readonly #options: PartitionsOptions;
  readonly #slots: readonly Slot[];
  readonly #timers = new Set<Timer>();
  #isStopped = false;

  constructor(options: PartitionsOptions) {
    this.#options = options;
    this.#slots = Array.from({ length: options.count }, (_, partition) => ({ partition, worker: undefined, turn: Promise.resolve() }));
  }

  /** True while a majority hears this process, every partition that it owns works, and their log can be reached. */
  get ready(): boolean {
    const { ownership } = this.#options;
    const isWell = ({ partition, worker }: Slot): boolean => {
      if (worker === undefined) return !ownership.owns(partition);
      return worker.state.kind === "running" || worker.state.kind === "rebuilding";
    };
    return ownership.works && this.#slots.every(isWell);
  }

  /**
   * Alone: fence, rebuild, run, all at the same time; rejects when no partition runs; one that does not is stopped and says so. Of several
   * processes each opens what it owns, from now on and whenever that changes.
   */
  async start(): Promise<void> {
    const { ownership, log } = this.#options;
    await ownership.start(() => this.#changed());
    if (ownership.isShared) this.#reconcile();
    else {
      const started = await Promise.allSettled(this.#slots.map((slot) => this.#open(slot)));
      const failures = started.flatMap((outcome) => (outcome.status === "rejected" ? [toConcordError(outcome.reason)] : []));
      if (failures.length === this.#slots.length) throw failures[0]!;
      log.info("partitions run", { running: this.#slots.length - failures.length, stopped: failures.length });
    }
    await this.#measure();
  }

  /** NOT_OWNER with the owner's address when another process has it; STARTING when it is on its way here. */
  worker(partition: number): PartitionWorker {
    const slot = this.#slots[partition];
    if (slot === undefined) throw new ConcordError("PARTITION_UNKNOWN", `there is no partition ${partition} of ${this.#slots.length}`);
    if (slot.worker !== undefined) return slot.worker;
    const { ownership } = this.#options;
    if (ownership.owns(partition)) throw new ConcordError("STARTING", `partition ${partition} is being opened`);
    const owner = ownership.ownerOf(partition);
    const metadata = owner === undefined ? {} : { owner: owner.name, address: owner.address };
    const where = owner === undefined ? "another worker" : `${owner.name} at ${owner.address}`;
    throw new ConcordError("NOT_OWNER", `partition ${partition} is served by ${where}`, {
      applied: "no",
      metadata: { partition: String(partition), ...metadata },
    });
  }

  /** PARTITION_STOPPED with the reason when it does not work. */
  working(partition: number): PartitionWorker {
    const worker = this.worker(partition);
    if (worker.state.kind !== "stopped") return worker;
    const { metadata, message } = worker.state.reason;
    throw new ConcordError("PARTITION_STOPPED", message, { applied: "no", metadata: { ...metadata, partition: String(partition) } });
  }

  /** The worker to pass a call on to; undefined: this one is to decide it. */
  otherOwner(partition: number): Worker | undefined {
    const { ownership } = this.#options;
    if (!ownership.isShared || this.#slots[partition]?.worker !== undefined || ownership.owns(partition)) return undefined;
    const owner = ownership.ownerOf(partition);
    return owner === undefined || owner.name === ownership.self ? undefined : owner;
  }

  /** In the order of `ids`. `ask`: at the worker that owns their partition. */
  async seen(
    ids: readonly Uint8Array[],
    ask: ((owner: Worker, ids: readonly Uint8Array[]) => Promise<readonly boolean[]>) | undefined,
  ): Promise<readonly boolean[]> {
    const places = ids.map((id) => partitionOfId(id, this.#slots.length));
    const wanted = [...new Set(places)].map((partition) => {
      const owner = ask === undefined ? undefined : this.otherOwner(partition);
      const worker = owner === undefined ? this.working(partition) : undefined;
      return { owner, worker, at: places.flatMap((place, at) => (place === partition ? [at] : [])) };
    });
    const seen = ids.map(() => false);
    await Promise.all(
      wanted.map(async ({ owner, worker, at }) => {
        const asked = at.map((place) => ids[place]!);
        const answers = worker === undefined ? await ask!(owner!, asked) : await worker.seen(asked);
        at.forEach((place, index) => (seen[place] = answers[index]!));
      }),
    );
    return seen;
  }

  /** Of those that this process has. */
  statistics(): Promise<readonly PartitionStatistics[]> {
    return Promise.all(this.#slots.flatMap(({ worker }) => (worker === undefined ? [] : [worker.statistics()])));
  }

  /** After the batches in flight. Never rejects. */
  async stop(): Promise<void> {
    const { ownership, log } = this.#options;
    this.#isStopped = true;
    for (const timer of this.#timers) timer.cancel();
    await ownership.stop().catch((thrown: unknown) => log.warn("the membership did not stop well", { reason: String(thrown) }));
    const stopping = this.#slots.map(async (slot) => {
      await slot.turn;
      await slot.worker?.stop();
    });
    const stopped = await Promise.allSettled(stopping);
    stopped.forEach((outcome, partition) => {
      if (outcome.status === "rejected") log.warn("a partition did not stop well", { partition, reason: String(outcome.reason) });
    });
  }

  /**
   * What is not owned any more ends at once. What another process had is opened after a pause when this one serves already: at a node's death its
   * transactions are taken over in the same process, and they have a quarter of a second.
   */
  #changed(): void {
    const open = this.#slots.filter(({ worker }) => worker !== undefined);
    for (const slot of open) this.#inTurn(slot, () => this.#settle(slot));
    if (open.length === 0) this.#reconcile();
    else this.#later(TAKE_OVER_PAUSE_MS, () => this.#reconcile());
  }

  #reconcile(): void {
    for (const slot of this.#slots) this.#inTurn(slot, () => this.#settle(slot));
  }

  #inTurn(slot: Slot, act: () => Promise<void>): void {
    const { log } = this.#options;
    slot.turn = slot.turn.then(act).catch((thrown: unknown) => {
      log.error("a partition could not be opened or closed", { partition: slot.partition, reason: String(thrown) });
    });
  }

  /** Opens what is owned, ends what is not. */
  async #settle(slot: Slot): Promise<void> {
    const owns = !this.#isStopped && this.#options.ownership.owns(slot.partition);
    if (owns && slot.worker === undefined) this.#open(slot).catch(() => undefined);
    else if (!owns && slot.worker !== undefined && !this.#isStopped) await this.#end(slot);
  }

  /** Resolves when it runs. */
  async #open(slot: Slot): Promise<void> {
    const { open, clock, log, metrics } = this.#options;
    const { partition } = slot;
    const beganMs = clock.monotonicMs();
    const worker = open(partition);
    slot.worker = worker;
    void worker.whenStopped().then((reason) => this.#onStopped(slot, worker, reason));
    await worker.start();
    metrics.gauge("dedup_partition_running", 1, { partition: String(partition) });
    log.info("a partition runs", { partition, afterMs: Math.round(clock.monotonicMs() - beganMs) });
  }

  /** Calls are refused first, then the batch in flight ends, then the log is left to the next owner. */
  async #end(slot: Slot): Promise<void> {
    const { worker, partition } = slot;
    slot.worker = undefined;
    await worker?.stop();
    await this.#options.messages.release(partition);
    this.#options.metrics.gauge("dedup_partition_running", 0, { partition: String(partition) });
    this.#options.log.info("a partition belongs to another worker now", { partition });
  }

  /** Fenced by another owner, it is opened again if it still belongs here: after a pause, since two that disagree would fence each other. */
  #onStopped(slot: Slot, worker: PartitionWorker, reason: ConcordError): void {
    const { metrics, ownership } = this.#options;
    metrics.gauge("dedup_partition_running", 0, { partition: String(slot.partition) });
    if (!ownership.isShared || reason.metadata["code"] !== "NOT_OWNER") return;
    this.#inTurn(slot, async () => {
      if (this.#isStopped || slot.worker !== worker) return;
      try {
        await this.#end(slot);
        await ownership.refresh();
      } finally {
        // Whatever failed: nothing else may ever ask for a partition whose owner stays the same.
        this.#later(REOPEN_PAUSE_MS, () => this.#reconcile());
      }
    });
  }

  /** Not once it has stopped: a timer set then would never be cancelled. */
  #later(delayMs: number, act: () => void): void {
    if (this.#isStopped) return;
    const timer = this.#options.clock.setTimer(delayMs, () => {
      this.#timers.delete(timer);
      act();
    });
    this.#timers.add(timer);
  }

  async #measure(): Promise<void> {
    const { log, messages, metrics } = this.#options;
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
    this.#later(GAUGE_INTERVAL_MS, () => void this.#measure());
  }
}

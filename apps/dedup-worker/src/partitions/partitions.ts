import { partitionOfId, type PartitionStatistics, type PartitionWorker } from "@concord/dedup";
import { tenureDecision } from "@concord/ownership";
import type { MessageLog } from "@concord/ports";
import { ConcordError, sleep, toConcordError, unreachable, type Clock, type Log, type Metrics, type Timer } from "@concord/runtime";
import {
  GAUGE_INTERVAL_MS,
  LEAVE_WAIT_MS,
  PEER_POLL_MS,
  RELEASE_HOLD_MS,
  RELEASE_TIMEOUT_MS,
  RELEASE_WAIT_MS,
  REOPEN_PAUSE_MS,
  TAKE_OVER_PAUSE_MS,
} from "../limits.ts";
import type { Ownership, Worker } from "./ownership.ts";
import { InputWatch } from "./input-watch.ts";
import { isFull, outputRefusal } from "./output-limit.ts";
import type { HandOverPeers } from "./peers.ts";
import { Slot } from "./slot.ts";
import { WindowWatch } from "./window-watch.ts";

export interface PartitionsOptions {
  readonly count: number;
  /** A worker for one tenure of a partition. */
  readonly open: (partition: number) => PartitionWorker;
  readonly ownership: Ownership;
  readonly peers: HandOverPeers;
  readonly messages: MessageLog;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** How far back windows are to reach; 0: no time is promised. */
  readonly windowMaxAgeMs: number;
}

/** The workers of the partitions that this process serves. One that stopped leaves the others alone (I3). */
export class Partitions {
  readonly #options: PartitionsOptions;
  readonly #slots: readonly Slot[];
  readonly #windows: WindowWatch;
  readonly #inputs: InputWatch;
  readonly #timers = new Set<Timer>();
  /** Partitions whose output is full: the log says so once. */
  readonly #full = new Set<number>();
  #isStopped = false;

  constructor(options: PartitionsOptions) {
    this.#options = options;
    this.#windows = new WindowWatch(options);
    this.#inputs = new InputWatch(options);
    this.#slots = Array.from({ length: options.count }, (_, partition) => {
      return new Slot({ ...options, partition, onStopped: (slot, worker, reason) => this.#onStopped(slot, worker, reason) });
    });
  }

  /**
   * True while a majority hears this process, every partition that it owns works and takes messages, their log can be reached, and its topics are as
   * they were.
   */
  get ready(): boolean {
    const { messages, ownership } = this.#options;
    const isWell = ({ partition, worker }: Slot): boolean => {
      if (worker === undefined) return !ownership.owns(partition);
      if (outputRefusal(messages, partition) !== undefined) return false;
      return worker.state.kind === "running" || worker.state.kind === "rebuilding";
    };
    return ownership.works && messages.topicFault === undefined && this.#slots.every(isWell);
  }

  /**
   * Alone: fence, rebuild, run, all at the same time; rejects when no partition runs; one that does not is stopped and says so. Of several
   * processes each opens what it owns, from now on and whenever that changes.
   */
  async start(): Promise<void> {
    const { ownership, log } = this.#options;
    await ownership.start((isNewList) => this.#changed(isNewList));
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
    const { worker } = this.#slot(partition);
    if (worker !== undefined) return worker;
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

  /** Several workers share the log: a partition may be on its way from one to another. */
  get isShared(): boolean {
    return this.#options.ownership.isShared;
  }

  /** Resolves when the partition is open here or closed; undefined: it is one of both. Never rejects. */
  moving(partition: number): Promise<void> | undefined {
    return this.#slot(partition).moving;
  }

  /** A call appends to an open partition and waits for its results; it ends when the answer is called. A release waits for it. */
  enter(partition: number): () => void {
    return this.#slot(partition).enter();
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

  /** In the order of `ids`, which are the source's. `ask`: at the worker that owns their partition. */
  async seen(
    ids: readonly Uint8Array[],
    source: string | undefined,
    ask: ((owner: Worker, ids: readonly Uint8Array[]) => Promise<readonly boolean[]>) | undefined,
  ): Promise<readonly boolean[]> {
    const places = ids.map((id) => partitionOfId(id, this.#slots.length));
    const wanted = [...new Set(places)].map((partition) => {
      const owner = ask === undefined ? undefined : this.otherOwner(partition);
      const worker = owner === undefined ? this.working(partition) : undefined;
      return { owner, worker, at: places.flatMap((place, at) => (place === partition ? [at] : [])) };
    });
    const seen = ids.map(() => false);
    const name = source === undefined ? undefined : new TextEncoder().encode(source);
    await Promise.all(
      wanted.map(async ({ owner, worker, at }) => {
        const asked = at.map((place) => ids[place]!);
        const answers = worker === undefined ? await ask!(owner!, asked) : await worker.seen(asked, name);
        at.forEach((place, index) => (seen[place] = answers[index]!));
      }),
    );
    return seen;
  }

  /** Of those that this process has. */
  statistics(): Promise<readonly PartitionStatistics[]> {
    return Promise.all(this.#slots.flatMap(({ worker }) => (worker === undefined ? [] : [worker.statistics()])));
  }

  /**
   * Another worker is about to stop: its partitions are for the next of their ranks, who asks it to release them. Resolves when this one serves what
   * falls to it, or after LEAVE_WAIT_MS. MALFORMED_REQUEST: the list does not have it.
   */
  async left(name: string): Promise<void> {
    await this.#checkOther(name);
    this.#options.ownership.left(name);
    for (const slot of this.#slots) if (slot.released?.to === name) slot.released = undefined;
    this.#reconcile();
    const opened = Promise.all(this.#slots.flatMap(({ moving }) => moving ?? []));
    await this.#within(opened, LEAVE_WAIT_MS);
  }

  /**
   * The worker `to` is to serve the partition, by this version of the list. Resolves when this one does not any more, and all that it had appended is
   * processed (I7). By a newer list the partition may be another's: nothing is released then. Answers the version known here. MALFORMED_REQUEST: the
   * list does not have `to`.
   */
  async release(partition: number, to: string, listVersion: number): Promise<number> {
    const { clock, log, ownership } = this.#options;
    const slot = this.#slot(partition);
    if (ownership.listVersion < listVersion) await this.#refresh();
    await this.#checkOther(to);
    if (ownership.listVersion > listVersion) return ownership.listVersion;
    ownership.returned(to);
    slot.released = { to, untilMs: clock.monotonicMs() + RELEASE_HOLD_MS, works: !ownership.hasFailed(to) };
    this.#later(RELEASE_HOLD_MS, () => this.#reconcile());
    if (slot.isServed) log.info("a partition is handed over", { partition, to });
    await slot.end(true);
    return ownership.listVersion;
  }

  /** How many partitions are open here, on their way here or on their way out. */
  get served(): number {
    return this.#slots.filter(({ isClosed }) => !isClosed).length;
  }

  /**
   * A planned stop: the others learn that this worker leaves, and take its partitions over one by one while it goes on to serve those not yet asked
   * for. Resolves when those that live serve them; at most after `graceMs`.
   */
  async handOver(graceMs: number): Promise<void> {
    const { ownership, peers } = this.#options;
    const others = ownership.present;
    if (!ownership.works || others.length === 0 || graceMs === 0) return;
    ownership.left(ownership.self);
    this.#reconcile();
    const answered = others.map((worker) => this.#untilAnswered(worker, peers.leave(worker.address, graceMs)));
    await this.#within(Promise.all(answered), graceMs);
  }

  /** After the batches in flight. Never rejects. */
  async stop(): Promise<void> {
    const { ownership, log } = this.#options;
    this.#isStopped = true;
    for (const timer of this.#timers) timer.cancel();
    await ownership.stop().catch((thrown: unknown) => log.warn("the membership did not stop well", { reason: String(thrown) }));
    await Promise.all(this.#slots.map((slot) => slot.end(false)));
  }

  /** What another process had is opened after a pause when this one serves already: at a node's death its transactions are taken over in the same process, and they have a quarter of a second. */
  #changed(isNewList: boolean): void {
    const { ownership } = this.#options;
    for (const slot of this.#slots) {
      if (isNewList) {
        // By another list any other may have served until now; and the worker that it was released to need not be its owner any more.
        slot.follows = false;
        if (slot.released !== undefined && !ownership.hasFailed(slot.released.to)) slot.released = undefined;
      }
      if (!ownership.owns(slot.partition)) slot.follows = ownership.follows(slot.partition);
      if (slot.released !== undefined && !ownership.hasFailed(slot.released.to)) slot.released.works = true;
    }
    const served = this.#slots.filter(({ isServed }) => isServed);
    for (const slot of served) this.#settle(slot);
    if (served.length === 0) this.#reconcile();
    else this.#later(TAKE_OVER_PAUSE_MS, () => this.#reconcile());
  }

  #reconcile(): void {
    for (const slot of this.#slots) this.#settle(slot);
  }

  /** By the table in the README of libs/ownership. */
  #settle(slot: Slot): void {
    if (this.#isStopped || (!slot.isClosed && !slot.isServed)) return;
    const { clock, log, ownership } = this.#options;
    const { partition, isServed } = slot;
    const nowMs = clock.monotonicMs();
    const isOwner = ownership.owns(partition);
    if (isOwner) slot.unownedSinceMs = undefined;
    else if (isServed && slot.unownedSinceMs === undefined) {
      slot.unownedSinceMs = nowMs;
      this.#later(RELEASE_WAIT_MS, () => this.#settle(slot));
    }
    const unownedMs = nowMs - (slot.unownedSinceMs ?? nowMs);
    const decision = tenureDecision({ isServed, works: ownership.works, isOwner, unownedMs, releaseWaitMs: RELEASE_WAIT_MS });
    switch (decision) {
      case "take":
        if (!this.#isHeld(slot))
          void this.#open(slot).then(
            () => this.#settle(slot),
            () => undefined,
          );
        return;
      case "hand-over":
      case "end":
        log.info("a partition belongs to another worker now", { partition });
        void slot.end(decision === "hand-over").then(() => this.#settle(slot));
        return;
      case "keep":
      case "await-release":
      case "nothing":
        return;
      default:
        unreachable(decision);
    }
  }

  /** Resolves when it runs, or is not to be opened any more. */
  async #open(slot: Slot): Promise<void> {
    const { ownership } = this.#options;
    const { partition } = slot;
    const ask = async (): Promise<void> => {
      // One that knows a newer list has released nothing: by that one it is asked again.
      for (let version = -1; version < ownership.listVersion && ownership.owns(partition);) {
        version = ownership.listVersion;
        await Promise.all(ownership.askedToRelease(partition, slot.follows).map((worker) => this.#askRelease(partition, worker)));
      }
    };
    const mayOpen = (): boolean => !this.#isStopped && ownership.owns(partition) && !this.#isHeld(slot);
    await slot.open(ask, mayOpen);
  }

  #isHeld({ released }: Slot): boolean {
    const { clock, ownership } = this.#options;
    return released !== undefined && clock.monotonicMs() < released.untilMs && !(released.works && ownership.hasFailed(released.to));
  }

  /** Only calls gain by it: whatever the other one answers, or none, the epoch decides (DDD4). */
  #askRelease(partition: number, worker: Worker): Promise<void> {
    const { ownership, peers } = this.#options;
    const request = { partition, listVersion: ownership.listVersion };
    const released = peers.release(worker.address, request, RELEASE_TIMEOUT_MS).then(async (version) => {
      if (version > ownership.listVersion) await this.#refresh();
    });
    return this.#untilAnswered(worker, released);
  }

  /** The other worker has answered in whatever way, or is called gone. */
  async #untilAnswered({ name }: Worker, call: Promise<void>): Promise<void> {
    const { clock, log, ownership } = this.#options;
    const over = new AbortController();
    const answered = call
      .catch((thrown: unknown) => log.debug("a call to another worker failed", { name, reason: toConcordError(thrown).message }))
      .finally(() => over.abort());
    while (!over.signal.aborted && !this.#isStopped && !ownership.hasFailed(name)) {
      await Promise.race([answered, sleep(clock, PEER_POLL_MS, over.signal)]);
    }
  }

  async #within(work: Promise<unknown>, ms: number): Promise<void> {
    const over = new AbortController();
    await Promise.race([work.finally(() => over.abort()), sleep(this.#options.clock, ms, over.signal)]);
  }

  /** Fenced by another owner, it is opened again if it still belongs here: after a pause, since two that disagree would fence each other. */
  #onStopped(slot: Slot, worker: PartitionWorker, reason: ConcordError): void {
    const { metrics, ownership } = this.#options;
    metrics.gauge("dedup_partition_running", 0, { partition: String(slot.partition) });
    if (!ownership.isShared || reason.metadata["code"] !== "NOT_OWNER" || this.#isStopped || slot.worker !== worker) return;
    void this.#leaveFenced(slot);
  }

  async #leaveFenced(slot: Slot): Promise<void> {
    const { log } = this.#options;
    const { partition } = slot;
    // Another one serves it: the next opening here asks for it.
    slot.follows = false;
    log.info("a partition belongs to another worker now", { partition });
    await slot.end(false);
    await this.#refresh();
    // Whatever failed: nothing else may ever ask for a partition whose owner stays the same.
    this.#later(REOPEN_PAUSE_MS, () => this.#reconcile());
  }

  /** One that was added just now may be in a list that is not read yet. */
  async #checkOther(name: string): Promise<void> {
    const { ownership } = this.#options;
    if (!ownership.isOther(name)) await this.#refresh();
    if (!ownership.isOther(name)) throw new ConcordError("MALFORMED_REQUEST", `${name} is none of the other workers`);
  }

  /** Goes by the newest list, if it can be read. */
  /** Where messages are refused, no publication ages the window: it ages here, and with it goes output. */
  async #measureOutput({ partition, worker }: Slot): Promise<void> {
    const { log, messages, metrics } = this.#options;
    const use = worker === undefined ? undefined : messages.outputUse?.(partition);
    if (use === undefined) return;
    const labels = { partition: String(partition) };
    metrics.gauge("dedup_output_bytes", use.bytes, labels);
    metrics.gauge("dedup_output_needed_bytes", use.neededBytes, labels);
    metrics.gauge("dedup_output_full", isFull(use) ? 1 : 0, labels);
    const refusal = outputRefusal(messages, partition);
    if (refusal !== undefined) {
      await worker!.forget().catch((thrown: unknown) => log.warn("old ids are not forgotten", { partition, reason: String(thrown) }));
      if (!this.#full.has(partition)) log.error("new messages are refused", { partition, reason: refusal.message });
      this.#full.add(partition);
    } else if (this.#full.delete(partition)) log.info("new messages are taken again", { partition });
  }

  /** Whether messages come or not: a crash reads again what a few seconds brought, which an engine with a retention of its own still has. */
  async #flush({ partition, worker }: Slot): Promise<void> {
    const { log } = this.#options;
    await worker?.flush().catch((thrown: unknown) => log.warn("the window is not written down", { partition, reason: String(thrown) }));
  }

  async #refresh(): Promise<void> {
    const { log, ownership } = this.#options;
    await ownership
      .refresh()
      .catch((thrown: unknown) => log.error("the list of workers cannot be read", { reason: toConcordError(thrown).message }));
  }

  #slot(partition: number): Slot {
    const slot = this.#slots[partition];
    if (slot !== undefined) return slot;
    throw new ConcordError("PARTITION_UNKNOWN", `there is no partition ${partition} of ${this.#slots.length}`);
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
    for (const slot of this.#slots) {
      await this.#measureOutput(slot);
      await this.#flush(slot);
    }
    metrics.gauge("dedup_partitions_unread", messages.topicFault?.unreadPartitions ?? 0);
    try {
      for (const { partition, state, lag, window } of await this.statistics()) {
        const labels = { partition: String(partition) };
        metrics.gauge("dedup_partition_running", state.kind === "stopped" || state.kind === "unavailable" ? 0 : 1, labels);
        // Of the output's offsets at least as many must be kept as the window has ids (DDD10).
        const { start } = await messages.bounds("output", partition);
        metrics.gauge("dedup_rebuildable", window.appliedOutput - start >= BigInt(window.ids) ? 1 : 0, labels);
        metrics.gauge("dedup_partition_lag", Number(lag), labels);
        await this.#inputs.measure(partition);
        metrics.gauge("dedup_window_ids", window.ids, labels);
        metrics.gauge("dedup_window_seconds", window.windowMs / 1000, labels);
        metrics.gauge("dedup_window_short", this.#windows.isShort({ partition, window }) ? 1 : 0, labels);
        metrics.gauge("dedup_window_disk_bytes", window.diskBytes, labels);
        metrics.gauge("dedup_window_memory_bytes", window.memoryBytes, labels);
      }
    } catch (thrown) {
      log.warn("statistics cannot be read", { reason: String(thrown) });
    }
    this.#later(GAUGE_INTERVAL_MS, () => void this.#measure());
  }
}

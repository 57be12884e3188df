import { partitionOfId, type PartitionStatistics, type PartitionWorker } from "@concord/dedup";
import { Units, type HandOverPeers, type ListedMember, type Owners } from "@concord/ownership";
import type { MessageLog } from "@concord/ports";
import {
  assert,
  ConcordError,
  every,
  Task,
  toConcordError,
  type Clock,
  type Log,
  type Metrics,
  type StopProgress,
  type Tasks,
} from "@concord/runtime";
import { GAUGE_INTERVAL_MS, UNIT_TIMES } from "../limits.ts";
import { partitionOfUnit, unitOf } from "../store/worker-list.ts";
import { InputWatch } from "./input-watch.ts";
import { isFull, outputRefusal } from "./output-limit.ts";
import { PartitionUnit } from "./partition-unit.ts";
import { WindowWatch } from "./window-watch.ts";

/** One of the workers that share a log. */
export type Worker = Pick<ListedMember, "name" | "address" | "datacenter">;

export interface PartitionsOptions {
  readonly count: number;
  /** A worker for one tenure of a partition. */
  readonly open: (partition: number) => PartitionWorker;
  readonly owners: Owners;
  readonly peers: HandOverPeers;
  readonly messages: MessageLog;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly tasks?: Tasks | undefined;
  /** Names the partitions that a stop waits for. */
  readonly stopProgress?: StopProgress;
  /** How far back windows are to reach; 0: no time is promised. */
  readonly windowMaxAgeMs: number;
}

/** The workers of the partitions that this process serves, calls for the others, and figures. One that stopped leaves the others alone (I3). */
export class Partitions {
  readonly #options: PartitionsOptions;
  readonly #units: Units<PartitionUnit>;
  readonly #partitions: readonly number[];
  readonly #windows: WindowWatch;
  readonly #inputs: InputWatch;
  /** Partitions whose output is full: the log says so once. */
  readonly #full = new Set<number>();
  readonly #gauges: Task;

  constructor(options: PartitionsOptions) {
    this.#options = options;
    this.#windows = new WindowWatch(options);
    this.#inputs = new InputWatch(options);
    this.#gauges = new Task({
      ...options,
      name: "messages: figures of the partitions",
      firstAfterMs: GAUGE_INTERVAL_MS,
      ...every(GAUGE_INTERVAL_MS, () => this.#measure()),
      failed: this.#unmeasured,
    });
    this.#partitions = Array.from({ length: options.count }, (_, partition) => partition);
    const tenure = (name: string): PartitionUnit => new PartitionUnit({ ...options, worker: options.open(partitionOfUnit(name)) });
    this.#units = new Units({ ...options, tenure, times: UNIT_TIMES, noun: "partition" });
  }

  /**
   * True while a majority hears this process, every partition that it owns works and takes messages, their log can be reached, and its topics are as
   * they were.
   */
  get ready(): boolean {
    return this.problems.length === 0;
  }

  /** Why it is not, a line each. */
  get problems(): readonly string[] {
    const { messages, owners } = this.#options;
    const alone = owners.works ? [] : ["this worker does not hear a majority of the workers"];
    return [
      ...alone,
      ...(messages.topicFault === undefined ? [] : [messages.topicFault.reason]),
      ...this.#partitions.flatMap((each) => this.#problemOf(each)),
    ];
  }

  #problemOf(partition: number): readonly string[] {
    const { messages, owners } = this.#options;
    const worker = this.#served(partition);
    if (worker === undefined) return owners.owns(unitOf(partition)) ? [`partition ${partition} is not open here yet`] : [];
    const refusal = outputRefusal(messages, partition);
    if (refusal !== undefined) return [refusal.message];
    const { state } = worker;
    if (state.kind === "running" || state.kind === "rebuilding") return [];
    return [state.kind === "stopped" ? state.reason.message : `partition ${partition}: ${state.reason.message}`];
  }

  /**
   * Alone: fence, rebuild, run, all at the same time; rejects when no partition runs; one that does not is stopped and says so. Of several
   * processes each opens what it owns, from now on and whenever that changes.
   */
  async start(): Promise<void> {
    const { log } = this.#options;
    await this.#units.start();
    const started = Promise.allSettled(this.#partitions.map((partition) => this.#units.add(unitOf(partition))));
    if (!this.isShared) {
      const failures = (await started).flatMap((outcome) => (outcome.status === "rejected" ? [toConcordError(outcome.reason)] : []));
      if (failures.length === this.#partitions.length) throw failures[0]!;
      log.info("partitions run", { running: this.#partitions.length - failures.length, stopped: failures.length });
    }
    await this.#measure().catch(this.#unmeasured);
    this.#gauges.start();
  }

  /** NOT_OWNER with the owner's address when another process has it; STARTING when it is on its way here. */
  worker(partition: number): PartitionWorker {
    this.#checkPartition(partition);
    const worker = this.#served(partition);
    if (worker !== undefined) return worker;
    const { owners } = this.#options;
    if (owners.owns(unitOf(partition))) throw new ConcordError("STARTING", `partition ${partition} is being opened`);
    const owner = this.#ownerOf(partition);
    const metadata = owner === undefined ? {} : { owner: owner.name, address: owner.address };
    const where = owner === undefined ? "another worker" : `${owner.name} at ${owner.address}`;
    throw new ConcordError("NOT_OWNER", `partition ${partition} is served by ${where}`, {
      applied: "no",
      metadata: { partition: String(partition), ...metadata },
    });
  }

  /** Several workers share the log: a partition may be on its way from one to another. */
  get isShared(): boolean {
    return !this.#options.owners.isAlone;
  }

  /** Resolves when the partition is open here or closed; undefined: it is one of both. Never rejects. */
  moving(partition: number): Promise<void> | undefined {
    this.#checkPartition(partition);
    return this.#units.moving(unitOf(partition));
  }

  /** A call appends to an open partition and waits for its results; it ends when the answer is called. A release waits for it. */
  enter(partition: number): () => void {
    const tenure = this.#units.tenure(unitOf(partition));
    assert(tenure.kind === "serving", "a call enters an open partition");
    return tenure.unit.enter();
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
    const { owners } = this.#options;
    if (!this.isShared || this.#served(partition) !== undefined || owners.owns(unitOf(partition))) return undefined;
    const owner = this.#ownerOf(partition);
    return owner?.name === owners.self ? undefined : owner;
  }

  /** In the order of `ids`, which are the source's. `ask`: at the worker that owns their partition. */
  async seen(
    ids: readonly Uint8Array[],
    source: string | undefined,
    ask: ((owner: Worker, ids: readonly Uint8Array[]) => Promise<readonly boolean[]>) | undefined,
  ): Promise<readonly boolean[]> {
    const places = ids.map((id) => partitionOfId(id, this.#options.count));
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
    return Promise.all(this.#partitions.flatMap((partition) => this.#served(partition)?.statistics() ?? []));
  }

  /** The worker `to` is to serve the partition (see `Units.release`): all that was appended here is processed before (I7). */
  release(partition: number, to: string, listVersion: number): Promise<number> {
    this.#checkPartition(partition);
    return this.#units.release(unitOf(partition), to, listVersion);
  }

  /** Planned hand-over. */
  get units(): Pick<Units<PartitionUnit>, "handOver" | "left" | "served"> {
    return this.#units;
  }

  /** After the batches in flight. Never rejects. */
  async stop(): Promise<void> {
    void this.#gauges.stop();
    await this.#units.stop();
  }

  /** The worker of the present tenure, while it takes calls or is about to. */
  #served(partition: number): PartitionWorker | undefined {
    const tenure = this.#units.tenure(unitOf(partition));
    return tenure.kind === "opening" || tenure.kind === "serving" ? tenure.unit?.worker : undefined;
  }

  #ownerOf(partition: number): Worker | undefined {
    const { owners } = this.#options;
    return owners.member(owners.ownerOf(unitOf(partition)));
  }

  #checkPartition(partition: number): void {
    const { count } = this.#options;
    if (partition < 0 || partition >= count) throw new ConcordError("PARTITION_UNKNOWN", `there is no partition ${partition} of ${count}`);
  }

  /** Where messages are refused, no publication ages the window: it ages here, and with it goes output. */
  async #measureOutput(partition: number): Promise<void> {
    const { log, messages, metrics } = this.#options;
    const worker = this.#served(partition);
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
  async #flush(partition: number): Promise<void> {
    const { log } = this.#options;
    await this.#served(partition)
      ?.flush()
      .catch((thrown: unknown) => log.warn("the window is not written down", { partition, reason: String(thrown) }));
  }

  readonly #unmeasured = (thrown: unknown): void => this.#options.log.warn("statistics cannot be read", { reason: String(thrown) });

  async #measure(): Promise<void> {
    const { messages, metrics } = this.#options;
    for (const partition of this.#partitions) {
      await this.#measureOutput(partition);
      await this.#flush(partition);
    }
    metrics.gauge("dedup_partitions_unread", messages.topicFault?.unreadPartitions ?? 0);
    for (const { partition, state, lag, window } of await this.statistics()) {
      const labels = { partition: String(partition) };
      metrics.gauge("dedup_partition_running", state.kind === "stopped" || state.kind === "unavailable" ? 0 : 1, labels);
      // At least as many offsets of the output must be kept as the window has ids (DDD10).
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
  }
}

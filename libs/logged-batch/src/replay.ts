import type { Verdict } from "@concord/failure-detection";
import { writeMs, type DeadLetter, type DeadLetterReason, type ReplayCount, type RowKey, type StepRunner } from "@concord/ports";
import { gather } from "@concord/quorum";
import { decodeMutation } from "@concord/rows";
import {
  assert,
  ConcordError,
  every,
  silentLog,
  silentMetrics,
  sleep,
  Task,
  toConcordError,
  type Checksum,
  type Log,
  type Metrics,
  type Tasks,
  type TimeId,
  type Timer,
} from "@concord/runtime";
import { decodeEntry, type BatchEntry } from "./batch-entry.ts";
import { batchError } from "./batch-error.ts";
import type { BatchLog, HeldBatch } from "./batch-log.ts";
import { quorumOf, type BatchNode, type BatchRing, type PutResult } from "./batch-node.ts";
import {
  GC_GRACE_MS,
  LOST_TURN_MS,
  REPLAY_BYTES_PER_MS,
  REPLAY_CONCURRENCY,
  REPLAY_ENTRIES_MAX,
  REPLAY_RUN_MS_MAX,
  RESOLVE_AFTER_MS,
} from "./limits.ts";

export interface BatchReplayOptions {
  readonly ring: BatchRing;
  /** This node's batchlog. */
  readonly batchLog: BatchLog;
  readonly runner: StepRunner;
  readonly checksum: Checksum;
  /** An entry older than this is an orphan (LB8): 2 x the write timeout. */
  readonly graceMs: number;
  readonly intervalMs: number;
  /** The smallest gc_grace of the tables concerned. */
  readonly gcGraceMs?: number;
  readonly tasks?: Tasks | undefined;
  readonly log?: Log;
  readonly metrics?: Metrics;
}

type ReplayResult = "completed" | "kept" | "dead_lettered" | "gone";

/**
 * Completes the batches whose coordinator did not (LB8): at an interval, what is older than the grace period goes to all replicas
 * with its original timestamp and is removed at all holders once every replica has it; else it is kept for the next run (LBD1). The
 * entry is its own hint. Holders take turns by rank (LBD4).
 */
export class BatchReplay {
  readonly #options: BatchReplayOptions;
  readonly #ring: BatchRing;
  readonly #log: Log;
  readonly #metrics: Metrics;
  readonly #openedAtMs: number;
  readonly #task: Task;
  #isStarted = false;
  #run: Promise<ReplayCount> | undefined;
  /** Nodes that a majority has lost, and since when (monotonic). */
  readonly #lost = new Map<string, number>();
  /** Runs that a verdict asked for. */
  readonly #extra = new Set<Timer>();
  /** Readers wait for a batch together. */
  readonly #waiting = new Map<HeldBatch, Promise<void>>();

  constructor(options: BatchReplayOptions) {
    const own = options.ring.nodes.filter(({ name }) => name === options.ring.self);
    assert(own.length === 1, "this node is in the ring once");
    this.#options = options;
    this.#ring = options.ring;
    this.#log = options.log ?? silentLog;
    this.#metrics = options.metrics ?? silentMetrics;
    this.#openedAtMs = options.ring.clock.monotonicMs();
    this.#task = new Task({
      clock: options.ring.clock,
      tasks: options.tasks,
      name: "storage: replay of batches",
      ...every(options.intervalMs, () => this.runOnce()),
      failed: (error) => this.#failed(error),
      progress: () => ({ pending: options.batchLog.size }),
    });
  }

  /** From now on a run at each interval; the first one at once, for what a crash of this node left. */
  start(): void {
    assert(!this.#isStarted, "runs follow each other");
    this.#isStarted = true;
    this.#task.start();
  }

  /** No further run begins; resolves when the one in progress has ended, after three write timeouts at the latest. */
  async stop(): Promise<void> {
    this.#isStarted = false;
    for (const timer of this.#extra) timer.cancel();
    this.#extra.clear();
    await this.#task.stop();
    await this.#settled();
  }

  /**
   * LBD3: batches of a node that a majority lost are orphans at once, whatever their age; holders take turns (LBD4). A wrong verdict does no
   * harm: what its coordinator goes on with is the same batch with the same timestamp (LB10). A node that is back may lack some.
   */
  heard(node: string, verdict: Verdict): void {
    const isLost = verdict === "gone" || verdict === "stuck";
    if (node === this.#ring.self || isLost === this.#lost.has(node)) return;
    if (isLost) this.#lost.set(node, this.#ring.clock.monotonicMs());
    else this.#lost.delete(node);
    if (!this.#isStarted) return;
    this.#runAfter(0);
    if (isLost) this.#runAgain(node, LOST_TURN_MS);
  }

  /**
   * While the node is lost: after its holders' turns, then ever more rarely until the interval takes over. An entry may arrive after the verdict, and
   * a peer that could not be reached for it may be there soon.
   */
  #runAgain(node: string, delayMs: number): void {
    this.#runAfter(delayMs, () => {
      const isOver = !this.#isStarted || !this.#lost.has(node) || 2 * delayMs > this.#options.intervalMs;
      if (!isOver) this.#runAgain(node, 2 * delayMs);
    });
  }

  /** LBD9: what this node coordinates and still holds is completed or hinted before it leaves. Answers how many entries stay. */
  async drain(): Promise<number> {
    await this.stop();
    await this.#replayNext(({ coordinator }) => coordinator === this.#ring.self);
    return this.#options.batchLog.size;
  }

  /** Replays all pending entries, whatever their age. */
  async replayNow(): Promise<ReplayCount> {
    return await this.#replayNext(() => true);
  }

  /** Replays what is orphaned; joins a run in progress. */
  runOnce(): Promise<ReplayCount> {
    return this.#run ?? this.#replay((pending) => this.#isOrphan(pending));
  }

  /** Oldest first. */
  async deadLetters(limit: number): Promise<readonly DeadLetter[]> {
    const ids = this.#options.batchLog.letters().slice(0, limit);
    return ids.length === 0 ? [] : this.#options.runner.submit(this.#options.batchLog.readLetters(ids));
  }

  /**
   * Executes a dead letter again with its original timestamp; it is back in the log first, so it cannot be lost (I4). NOT_FOUND,
   * CORRUPT_DATA, BATCH_INVALID when older than gc_grace and not forced (LBD6), BATCH_TIMEOUT: it will be completed.
   */
  async redrive(id: TimeId, force: boolean): Promise<readonly RowKey[]> {
    const { batchLog, runner, checksum } = this.#options;
    const [letter] = await runner.submit(batchLog.readLetters([id]));
    if (letter === undefined) throw new ConcordError("NOT_FOUND", `no dead letter ${id}`, { metadata: { batchId: id } });
    const entry = decodeEntry(letter.entry, checksum);
    const rows = entry.mutations.map((mutation) => decodeMutation(mutation).key);
    if (this.#isExpired(entry) && !force) throw expired(entry, rows);
    const pending = await runner.submit(batchLog.revive({ ...entry, createdMs: this.#ring.clock.nowMs(), holders: [this.#ring.self] }));
    assert(pending.id === id && entry.timestampUs === pending.timestampUs, "a redriven batch keeps its id and timestamp (LBD6)");
    const bytes = await runner.submit(batchLog.read(id));
    const result = bytes === undefined ? "gone" : await this.#complete(pending, entry, bytes);
    if (result === "completed" || pending.confirmed.size >= quorumOf(this.#ring)) return rows;
    throw batchError("BATCH_TIMEOUT", "the batch is in the log again and will be completed", {
      id,
      timestampUs: entry.timestampUs,
      writeType: "BATCH",
      outcome: "LOGGED_PENDING",
    });
  }

  /**
   * Resolves when the batch is decided here, so that its rows can be read, or not held any more (I5): by the coordinator, which is asked for
   * it, else by finding a second holder. REPLICAS_UNAVAILABLE: there is none, so no quorum has seen the batch through us.
   */
  whenDecided(held: HeldBatch): Promise<void> {
    const waiting = this.#waiting.get(held);
    if (waiting !== undefined) return waiting;
    const wait = this.#wait(held).finally(() => this.#waiting.delete(held));
    this.#waiting.set(held, wait);
    return wait;
  }

  #wait(held: HeldBatch): Promise<void> {
    const { clock, nodes } = this.#ring;
    return new Promise((resolve, reject) => {
      const forget = this.#options.batchLog.undecided.onDecided(held, () => {
        timer.cancel();
        resolve();
      });
      const timer = clock.setTimer(RESOLVE_AFTER_MS, () => {
        this.#resolve(held).then(resolve, (thrown: Error) => {
          forget();
          reject(thrown);
        });
      });
      nodes.find((node) => node.name === held.coordinator)?.want();
    });
  }

  async #resolve(held: HeldBatch): Promise<void> {
    const { batchLog, runner } = this.#options;
    const bytes = await runner.submit(batchLog.read(held.id));
    if (bytes === undefined) return;
    const needed = quorumOf(this.#ring) - 1;
    if (needed > 0) {
      const puts = this.#ring.nodes.filter((node) => node.name !== this.#ring.self).map((node) => this.#putAt(node, bytes));
      const gathered = await gather(puts, { clock: this.#ring.clock, timeoutMs: this.#timeMs(bytes.length), needed });
      if (gathered.kind !== "enough") throw undecided(held, gathered.failures[0]);
    }
    // on two disks before the first row is merged (I1)
    await runner.submit(batchLog.write({ entries: [], decided: [held.id], removed: [] }));
    if (held.state.kind === "undecided" && batchLog.isHeld(held)) throw undecided(held);
  }

  async #putAt(node: BatchNode, bytes: Uint8Array): Promise<void> {
    const { results } = await node.batchLog.write({ entries: [bytes], decided: [], removed: [] }, this.#timeMs(bytes.length));
    if (results[0] !== "kept") throw new ConcordError("REPLICAS_UNAVAILABLE", `${node.name} does not keep the batch`);
  }

  #runAfter(delayMs: number, then: () => void = () => undefined): void {
    const timer = this.#ring.clock.setTimer(delayMs, () => {
      this.#extra.delete(timer);
      // A run in progress may have passed what is an orphan since.
      void this.#settled()
        .then(() => this.runOnce())
        .catch((thrown: unknown) => this.#failed(toConcordError(thrown)))
        .finally(then);
    });
    this.#extra.add(timer);
  }

  #failed({ message }: ConcordError): void {
    this.#log.error("batch replay failed", { reason: message });
  }

  /** The run in progress has ended, however. */
  async #settled(): Promise<void> {
    await this.#run?.catch(() => undefined);
  }

  /** Behind the run in progress and those that wait for it. */
  async #replayNext(selects: (pending: HeldBatch) => boolean): Promise<ReplayCount> {
    while (this.#run !== undefined) await this.#settled();
    return await this.#replay(selects);
  }

  #replay(selects: (pending: HeldBatch) => boolean): Promise<ReplayCount> {
    assert(this.#run === undefined, "batches are replayed by one run at a time");
    const run = this.#replayAll(selects).finally(() => (this.#run = undefined));
    this.#run = run;
    return run;
  }

  async #replayAll(selects: (pending: HeldBatch) => boolean): Promise<ReplayCount> {
    const { batchLog } = this.#options;
    const results: ReplayResult[] = [];
    for (const { id } of batchLog.unreadable()) results.push(await this.#deadLetter(id, "UNDECODABLE"));
    const able: HeldBatch[] = [];
    const waiting: HeldBatch[] = [];
    // Those that only wait for a node that is away come last: they must not stand before a batch that others still lack (LB11).
    for (const one of batchLog.pending()) if (selects(one)) (this.#canGoOn(one) ? able : waiting).push(one);
    const queue = able.concat(waiting).slice(0, REPLAY_ENTRIES_MAX);
    const { clock } = this.#ring;
    const startedAtMs = clock.monotonicMs();
    let bytes = 0;
    const worker = async (): Promise<void> => {
      for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
        const spentMs = clock.monotonicMs() - startedAtMs;
        if (spentMs >= REPLAY_RUN_MS_MAX) return;
        bytes += next.bytes;
        const aheadMs = bytes / REPLAY_BYTES_PER_MS - spentMs;
        if (aheadMs > 1) await sleep(clock, aheadMs);
        results.push(await this.#replayOne(next));
      }
    };
    await Promise.all(Array.from({ length: REPLAY_CONCURRENCY }, worker));
    this.#observe(results);
    const count = (wanted: ReplayResult): number => results.filter((result) => result === wanted).length;
    return { completed: count("completed"), kept: count("kept"), deadLettered: count("dead_lettered") };
  }

  async #replayOne(pending: HeldBatch): Promise<ReplayResult> {
    const { batchLog, runner, checksum } = this.#options;
    if (this.#isExpired(pending)) return this.#deadLetter(pending.id, "EXPIRED");
    const bytes = await runner.submit(batchLog.read(pending.id));
    if (bytes === undefined) return "gone";
    let entry: BatchEntry;
    try {
      entry = decodeEntry(bytes, checksum);
    } catch {
      return this.#deadLetter(pending.id, "UNDECODABLE");
    }
    return this.#complete(pending, entry, bytes);
  }

  /** To every replica that has not confirmed it yet; removed everywhere when all have (I2). */
  async #complete(pending: HeldBatch, entry: BatchEntry, bytes: Uint8Array): Promise<ReplayResult> {
    const { nodes, self } = this.#ring;
    const timeMs = this.#timeMs(pending.bytes);
    const missing = nodes.filter((node) => !isSafe(pending, node.name) && this.#isThere(node));
    const results = new Map<string, PutResult>([[self, "kept"]]);
    const others = missing.filter((node) => node.name !== self);
    await this.#all(
      timeMs,
      others.map((node) => this.#offer(node, pending, bytes, results)),
    );
    const holders = [...results.values()].filter((result) => result === "kept").length;
    // on two disks before the first row is merged (I1), as it was when a node confirmed the rows: those are not asked again
    const isDecided = pending.state.kind !== "undecided" || pending.confirmed.size > 0;
    if (!isDecided && holders < quorumOf(this.#ring)) return "kept";
    await this.#all(
      timeMs,
      missing.map((node) => this.#mergeAt(node, pending, entry, results)),
    );
    await this.#hint(pending, entry, results);
    if (!this.#options.batchLog.isHeld(pending)) {
      // removed meanwhile, so every replica has it: what was offered goes again
      await this.#all(
        timeMs,
        others.map((node) => this.#removeAt(node, pending.id)),
      );
      return "gone";
    }
    if (nodes.some((node) => !isSafe(pending, node.name))) return "kept";
    assert(pending.state.kind === "merged", "I2: this node has merged the rows before its entry goes");
    assert(pending.confirmed.size >= quorumOf(this.#ring), "I2: a majority has it, and every other one a hint, before the entry goes");
    this.#ring.failpoint("replay:before-remove");
    // the own entry last: while it is there, another run finds what was not removed elsewhere
    const there = nodes.filter((node) => node.name !== self && this.#isThere(node));
    await this.#all(
      timeMs,
      there.map((node) => this.#removeAt(node, pending.id)),
    );
    await this.#options.runner.submit(this.#options.batchLog.write({ entries: [], decided: [], removed: [pending.id] }));
    assert(!this.#options.batchLog.isHeld(pending), "what is completed is held no more");
    return "completed";
  }

  async #offer(node: BatchNode, pending: HeldBatch, bytes: Uint8Array, results: Map<string, PutResult>): Promise<void> {
    try {
      const written = await node.batchLog.write({ entries: [bytes], decided: [], removed: [] }, this.#timeMs(bytes.length));
      results.set(node.name, written.results[0]!);
    } catch (thrown) {
      this.#log.debug("replay: a node did not take the entry", { batch: pending.id, node: node.name, reason: toConcordError(thrown).code });
    }
  }

  /**
   * LB9: a replica that did not answer gets a hint, or a comparison is due with it, once a majority has the rows, this node among them: a comparison sends
   * what is here. While the own store takes no step the entry itself stays: a hint for this node would be delivered by none.
   */
  async #hint(pending: HeldBatch, entry: BatchEntry, answered: ReadonlyMap<string, PutResult>): Promise<void> {
    const { nodes, self } = this.#ring;
    if (pending.confirmed.size < quorumOf(this.#ring) || !pending.confirmed.has(self)) return;
    const silent = nodes.filter(({ name }) => name !== self && !isSafe(pending, name) && !answered.has(name));
    for (const { name } of silent) {
      const kept = await this.#ring.hint(name, entry.createdMs, entry.mutations);
      pending.hinted.add(name);
      this.#metrics.count("batch_replay_hints_total", 1, { result: kept === "hint" ? "kept" : "full" });
    }
  }

  /** A node that does not take the entry gets the rows alone. One without a result did not answer; nor has one that is silent now. */
  async #mergeAt(node: BatchNode, pending: HeldBatch, entry: BatchEntry, results: Map<string, PutResult>): Promise<void> {
    const result = results.get(node.name);
    if (result === undefined) return;
    const timeoutMs = this.#timeMs(pending.bytes);
    try {
      if (result === "kept") {
        const { applied } = await node.batchLog.write({ entries: [], decided: [pending.id], removed: [] }, timeoutMs);
        if (applied[0] !== true) return;
      } else await node.rows.applyRows(entry.mutations, timeoutMs);
      pending.confirmed.add(node.name);
      assert(pending.confirmed.size <= this.#ring.nodes.length, "only nodes of the ring confirm");
    } catch (thrown) {
      results.delete(node.name);
      this.#log.debug("replay: a replica did not confirm", { batch: pending.id, replica: node.name, reason: toConcordError(thrown).code });
    }
  }

  /** A holder that does not hear of it completes the batch again, which changes nothing (LB10). */
  async #removeAt(node: BatchNode, id: TimeId): Promise<void> {
    try {
      await node.batchLog.write({ entries: [], decided: [], removed: [id] }, this.#ring.writeTimeoutMs);
    } catch (thrown) {
      this.#log.debug("replay: a holder did not confirm the removal", { holder: node.name, reason: toConcordError(thrown).code });
    }
  }

  /** At most so long, whatever the nodes do. */
  async #all(timeoutMs: number, calls: readonly Promise<void>[]): Promise<void> {
    if (calls.length > 0) await gather(calls, { clock: this.#ring.clock, timeoutMs, needed: calls.length });
  }

  /** One write timeout, and the time of a batch's bytes. */
  #timeMs(bytes: number): number {
    return writeMs(this.#ring.writeTimeoutMs, bytes);
  }

  async #deadLetter(id: TimeId, reason: DeadLetterReason): Promise<ReplayResult> {
    const moved = await this.#options.runner.submit(this.#options.batchLog.deadLetter(id, reason));
    if (!moved) return "gone";
    this.#log.error("a batch is a dead letter now", { batch: id, reason });
    return "dead_lettered";
  }

  /** A node that a majority has lost would cost a replay one write timeout. */
  #isThere(node: BatchNode): boolean {
    return node.rows.reachable && !this.#lost.has(node.name);
  }

  /**
   * Received longer ago than the grace period, by this node's own clock, or its coordinator is lost; each rank waits for its turn (LBD4).
   * What this node itself coordinated before its restart waits for nothing.
   */
  #isOrphan(pending: HeldBatch): boolean {
    const { self, clock } = this.#ring;
    if (pending.receivedAtMs === undefined && pending.coordinator === self) return true;
    const lostAtMs = this.#lost.get(pending.coordinator);
    if (lostAtMs !== undefined) {
      const turn = pending.holders.filter((holder) => !this.#lost.has(holder)).indexOf(self);
      if (clock.monotonicMs() - lostAtMs >= LOST_TURN_MS * turn) return true;
    }
    const rank = Math.max(0, pending.holders.indexOf(self));
    const ageMs = clock.monotonicMs() - (pending.receivedAtMs ?? this.#openedAtMs);
    // Its coordinator gives a large batch the time of its bytes.
    return ageMs >= writeMs(this.#options.graceMs, pending.bytes) * (1 + rank);
  }

  #canGoOn(pending: HeldBatch): boolean {
    const missing = this.#ring.nodes.filter((node) => !isSafe(pending, node.name));
    return missing.length === 0 || missing.some((node) => this.#isThere(node)) || this.#isExpired(pending);
  }

  #isExpired(batch: Pick<HeldBatch, "createdMs" | "timestampUs" | "holders">): boolean {
    const isOld = this.#ring.clock.nowMs() - batch.createdMs > (this.#options.gcGraceMs ?? GC_GRACE_MS);
    return isOld || this.#options.batchLog.isForgotten(batch);
  }

  #observe(results: readonly ReplayResult[]): void {
    for (const result of results) this.#metrics.count("batch_replays_total", 1, { result });
    const [oldest] = this.#options.batchLog.pending();
    this.#metrics.gauge("batch_log_pending", this.#options.batchLog.size);
    this.#metrics.gauge("batch_log_oldest_seconds", oldest === undefined ? 0 : (this.#ring.clock.nowMs() - oldest.createdMs) / 1000);
  }
}

/** The node has the rows, or a hint for it lies on this node's disk, or the note that a comparison with it is due. */
function isSafe({ confirmed, hinted }: HeldBatch, node: string): boolean {
  return confirmed.has(node) || hinted.has(node);
}

function undecided(held: HeldBatch, cause?: ConcordError): ConcordError {
  const text = `batch ${held.id} writes these rows and no second node can confirm it now; repeat the read`;
  return new ConcordError("REPLICAS_UNAVAILABLE", text, { metadata: { batchId: held.id }, cause });
}

function expired(entry: BatchEntry, rows: readonly RowKey[]): ConcordError {
  const metadata = { batchId: entry.id, rows: String(rows.length), tables: [...new Set(rows.map((row) => row.table))].join(",") };
  return new ConcordError(
    "BATCH_INVALID",
    "the batch is older than gc_grace: deleted rows could come back; force it to execute it anyway",
    { metadata },
  );
}

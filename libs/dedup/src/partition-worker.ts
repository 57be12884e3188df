import type { LogSession, LogTopic, NewMessage } from "@concord/ports";
import { assert, backoffMs, ConcordError, sleep, toConcordError, unreachable, type ErrorCode } from "@concord/runtime";
import type {
  PartitionStatistics,
  PartitionWorker,
  InputResult,
  WindowStatistics,
  WorkerDependencies,
  WorkerOptions,
  WorkerState,
} from "./api.ts";
import { SegmentedWindow } from "./segmented-window.ts";
import type { IdTable } from "./id-table.ts";
import { countKinds, classifyPage, publishedIds, type ClassifiedPage } from "./classify-page.ts";
import { ID_BYTES_MAX, OPEN_ATTEMPTS_MAX, OPEN_BACKOFF, SEEN_IDS_MAX } from "./limits.ts";
import { seedOf } from "./load-window.ts";
import { IdReader, readPage, toppedUp } from "./read-page.ts";
import { rebuildWindow } from "./rebuild-window.ts";
import { restoreSnapshot } from "./restore-snapshot.ts";
import { InputResults } from "./input-results.ts";
import { SteadyTime } from "./steady-time.ts";
import { Snapshots, type SnapshotSource } from "./take-snapshot.ts";
import type { OpenWindow, Window } from "./window.ts";
import { findByInput } from "./find-by-input.ts";
import { readStoredOrigin } from "./origin.ts";
import { checkWorkerOptions } from "./worker-options.ts";

const NO_WINDOW: WindowStatistics = {
  ids: 0,
  segments: 0,
  windowMs: 0,
  diskBytes: 0,
  memoryBytes: 0,
  appliedOutput: 0n,
  droppedBySize: 0,
  droppedByTime: 0,
  quarantined: [],
};

const openSegmentedWindow: OpenWindow = (options, stores, environment) => SegmentedWindow.open(options, stores, environment);

/**
 * One partition's deduplication, with a segmented window (DDD6); another one is for comparison alone. LIMIT_EXCEEDED, MALFORMED_REQUEST or
 * PARTITION_UNKNOWN when the options are outside the limits.
 */
export function createPartitionWorker(
  options: WorkerOptions,
  dependencies: WorkerDependencies,
  openWindow: OpenWindow = openSegmentedWindow,
): PartitionWorker {
  checkWorkerOptions(options, dependencies.log.partitions, dependencies.snapshots);
  return new Worker(options, dependencies, openWindow);
}

/** What a window was made from; the output from its `outNext` on comes on top of each. */
const WINDOW_ORIGINS = ["local", "snapshot", "output"] as const;
type WindowOrigin = (typeof WINDOW_ORIGINS)[number];

/** What an open partition has. */
interface Opened {
  readonly window: Window;
  readonly reader: IdReader;
}

/** The window's one writer at a time: a page that was published, or what is done between two. */
type Writing = { readonly kind: "none" } | { readonly kind: "page" } | { readonly kind: "between pages"; readonly done: Promise<void> };

const NO_WRITING: Writing = { kind: "none" };

class Worker implements PartitionWorker {
  readonly partition: number;
  readonly #options: WorkerOptions;
  readonly #dependencies: WorkerDependencies;
  readonly #openWindow: OpenWindow;
  readonly #results = new InputResults();
  readonly #stopping = new AbortController();
  readonly #running = Promise.withResolvers<void>();
  readonly #stopped = Promise.withResolvers<ConcordError>();
  #state: WorkerState = { kind: "rebuilding" };
  #life: Promise<void> | undefined;
  /** Kept over a lost session: only its own failure closes it. */
  #opened: Opened | undefined;
  /** Sent to the log, not known to be there and in the window. */
  #unresolved: ClassifiedPage | undefined;
  /** Of the session that processes pages. */
  #session: LogSession | undefined;
  #writing: Writing = NO_WRITING;
  /** Where the output and the dead letters ended before it was sent: the window may have it already, however its call ended. */
  #outputEnd = 0n;
  #deadLettersEnd = 0n;
  readonly #time: SteadyTime;
  /** Failures since a page was published. */
  #attempts = 0;
  #counts = { accepted: 0, duplicate: 0, "dead-lettered": 0, rerouted: 0 };

  constructor(options: WorkerOptions, dependencies: WorkerDependencies, openWindow: OpenWindow) {
    this.partition = options.partition;
    this.#options = options;
    this.#dependencies = dependencies;
    this.#openWindow = openWindow;
    const { clock, log, metrics } = dependencies.environment;
    this.#time = new SteadyTime(clock, (aheadMs) => {
      metrics.count("dedup_clock_jumps_total");
      log.warn("the clock jumped ahead: ids are kept for longer, none is forgotten for it", { partition: this.partition, aheadMs });
    });
    this.#running.promise.catch(() => undefined);
  }

  get state(): WorkerState {
    return this.#state;
  }

  start(): Promise<void> {
    assert(this.#life === undefined, "a worker starts once");
    this.#life = this.#live();
    return this.#running.promise;
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#life;
    assert(this.#session === undefined && this.#opened === undefined, "DD11: a worker that has stopped has closed its window");
    const draining = new ConcordError("DRAINING", `partition ${this.partition} stops here`);
    this.#results.end(draining);
    this.#running.reject(draining);
  }

  whenStopped(): Promise<ConcordError> {
    return this.#stopped.promise;
  }

  whenProcessed(offset: bigint): Promise<InputResult> {
    return this.#results.whenProcessed(offset);
  }

  async seen(ids: readonly Uint8Array[], source?: Uint8Array): Promise<readonly boolean[]> {
    if (ids.length > SEEN_IDS_MAX) throw new ConcordError("LIMIT_EXCEEDED", `at most ${SEEN_IDS_MAX} ids`);
    const bad = ids.find((id) => id.length === 0 || id.length > ID_BYTES_MAX);
    if (bad !== undefined) throw new ConcordError("MALFORMED_REQUEST", `an id has 1 to ${ID_BYTES_MAX} bytes, not ${bad.length}`);
    if (this.#state.kind === "stopped") throw this.#state.reason;
    if (this.#state.kind !== "running" || this.#opened === undefined)
      throw new ConcordError("STARTING", `partition ${this.partition} is rebuilding its window`);
    const { window, reader } = this.#opened;
    return Array.from(await window.lookUp(reader.packGivenIds(ids, source)), (found) => found === 1);
  }

  async forget(): Promise<void> {
    await this.#betweenPages((window) => window.forget(this.#time.now()));
  }

  async flush(): Promise<void> {
    await this.#betweenPages((window) => window.flush());
  }

  /** Not where a page is being written: it does the same. */
  async #betweenPages(write: (window: Window) => Promise<void>): Promise<void> {
    const [opened, session] = [this.#opened, this.#session];
    if (opened === undefined || session === undefined || this.#writing.kind !== "none") return;
    const done = write(opened.window).finally(() => (this.#writing = NO_WRITING));
    this.#writing = { kind: "between pages", done };
    await done;
    session.keepOutputFrom?.(opened.window.neededFrom);
  }

  async statistics(): Promise<PartitionStatistics> {
    const end = await this.#inputEnd();
    const { accepted, duplicate, rerouted, "dead-lettered": deadLettered } = this.#counts;
    const window = this.#opened?.window.statistics(this.#time.now()) ?? NO_WINDOW;
    const lag = end - this.#results.processedTo;
    return { partition: this.partition, state: this.#state, lag, window, accepted, duplicates: duplicate, deadLettered, rerouted };
  }

  /** A partition that is stopped may have a log that cannot be read: its reason is given out all the same. */
  async #inputEnd(): Promise<bigint> {
    try {
      const { log } = this.#dependencies;
      return ((await log.inputEnds?.(this.partition)) ?? (await log.bounds("input", this.partition))).end;
    } catch (thrown) {
      if (this.#state.kind !== "stopped") throw thrown;
      assert(this.#session === undefined, "a partition that is stopped publishes nothing");
      return this.#results.processedTo;
    }
  }

  async #live(): Promise<void> {
    const { log, metrics } = this.#dependencies.environment;
    while (!this.#stopping.signal.aborted) {
      try {
        await this.#liveOnce();
      } catch (thrown) {
        const error = toConcordError(thrown);
        await this.#closeWindow();
        if (isFinal(error)) return this.#stopBy(error);
        if (this.#stopping.signal.aborted) break;
        log.warn("partition is opened again", { partition: this.partition, reason: error.message });
        this.#attempts += 1;
        // An outage of the log ends by itself, however long it takes; anything else that stays needs an operator.
        if (error.kind === "unavailable") this.#state = { kind: "unavailable", reason: error };
        else if (this.#attempts > OPEN_ATTEMPTS_MAX) return this.#stopBy(error);
      }
      if (this.#stopping.signal.aborted) break;
      metrics.count("dedup_reopened_total");
      // A session that ended without a failure is a reason for the first pause too.
      await sleep(this.#dependencies.environment.clock, backoffMs(OPEN_BACKOFF, this.#attempts + 1), this.#stopping.signal);
    }
    await this.#closeWindow();
  }

  /** From the fence to the end of the session. */
  async #liveOnce(): Promise<void> {
    const { log, environment } = this.#dependencies;
    assert(this.#session === undefined, "DDD4: a worker has one session at a time");
    if (this.#state.kind === "running") this.#state = { kind: "rebuilding" };
    if (!(await log.isAssigned(this.partition))) throw takenByAnother(this.partition);
    // Fence first, read afterwards (I2).
    const session = await log.open(this.partition, this.#options.owner);
    try {
      environment.failpoint("dedup:fenced");
      const beganMs = environment.clock.monotonicMs();
      const { opened, from } = await this.#open(session);
      await rebuildWindow(
        opened.window,
        { log, partition: this.partition, output: session.output, reader: opened.reader, stopping: this.#stopping.signal },
        environment.log,
      );
      assert(opened.window.appliedOutput === session.output.end, "DD9: a window has the whole output before its partition runs");
      environment.failpoint("dedup:rebuilt");
      this.#measureRestore(from, environment.clock.monotonicMs() - beganMs);
      this.#time.continueFrom(await opened.window.newestMs());
      await this.#resolvePublish(session);
      this.#results.resumeAt(session.acknowledgedInput);
      session.keepOutputFrom?.(opened.window.neededFrom);
      this.#state = { kind: "running" };
      this.#running.resolve();
      const snapshots = this.#snapshots === undefined ? undefined : new Snapshots(this.#snapshots, opened.window, this.#stopping.signal);
      this.#session = session;
      try {
        await this.#processPages(session, opened);
      } finally {
        this.#session = undefined;
        if (this.#writing.kind === "between pages") await this.#writing.done.catch(() => undefined);
        this.#writing = NO_WRITING;
        await snapshots?.stop();
      }
    } finally {
      await session.close().catch(() => undefined);
    }
  }

  /** Undefined: none are taken or restored. */
  get #snapshots(): SnapshotSource | undefined {
    const { snapshots, log, hash, environment } = this.#dependencies;
    if (snapshots === undefined) return undefined;
    return { snapshots, log, hash, environment, partition: this.partition };
  }

  /** Where no window is, the newest snapshot that fits: the output from there on is still to be applied, as behind any window (DD11). */
  async #open(session: LogSession): Promise<{ readonly opened: Opened; readonly from: WindowOrigin }> {
    if (this.#opened !== undefined) return { opened: this.#opened, from: "local" };
    const { stores, environment, log, hash } = this.#dependencies;
    const { segmentsMax } = this.#options.window;
    const snapshots = this.#snapshots;
    const { signal } = this.#stopping;
    const isRestored =
      snapshots !== undefined && (await restoreSnapshot({ ...snapshots, stores, segmentsMax, output: session.output }, signal));
    const window = await this.#openWindow(this.#options.window, stores, environment);
    assert(!isRestored || window.appliedOutput !== undefined, "DD11: a window that was restored goes on behind its snapshot");
    const reader = new IdReader(this.#options, log.partitions, window.idKey, hash);
    this.#opened = { window, reader };
    return { opened: this.#opened, from: isRestored ? "snapshot" : window.appliedOutput === undefined ? "output" : "local" };
  }

  #measureRestore(from: WindowOrigin, ms: number): void {
    const { metrics } = this.#dependencies.environment;
    for (const each of WINDOW_ORIGINS)
      metrics.gauge("dedup_restore_seconds", each === from ? ms / 1000 : 0, { partition: String(this.partition), from: each });
  }

  /** Reads, looks up, publishes, applies: page after page. Resolves when the worker stops or the session is lost. */
  async #processPages(session: LogSession, { window, reader }: Opened): Promise<void> {
    const { log, environment } = this.#dependencies;
    const reading = new AbortController();
    const signal = AbortSignal.any([reading.signal, this.#stopping.signal]);
    const read = (from: bigint): ReturnType<typeof readPage> => {
      const page = readPage(log, this.#options, window, reader, from, signal);
      page.catch(() => undefined);
      return page;
    };
    let coming = read(session.acknowledgedInput);
    let before: IdTable | undefined;
    try {
      for (;;) {
        const ahead = await coming;
        if (ahead === undefined) return;
        const page = await toppedUp(ahead, log, this.#options, window, reader);
        // Looked up while this page is published: what this page adds is compared by hand (I6).
        coming = read(page.next);
        environment.failpoint("dedup:looked-up");
        const classified = classifyPage(page, before, this.#time.now(), seedOf(window.idKey));
        if (!(await this.#publish(session, window, classified))) return;
        before = classified.fresh;
        if (this.#stopping.signal.aborted) return;
      }
    } finally {
      reading.abort();
      await coming.catch(() => undefined);
    }
  }

  /** Publishes, then applies, then resolves the waiters (I1). False: the session is lost, and the outcome of the publish is unresolved until the next one opens. */
  async #publish(session: LogSession, window: Window, classified: ClassifiedPage): Promise<boolean> {
    const { clock, failpoint, metrics, log } = this.#dependencies.environment;
    const startMs = clock.monotonicMs();
    assert(this.#unresolved === undefined, "I7: a page is published once it is known what became of the one before");
    this.#unresolved = classified;
    this.#outputEnd = window.appliedOutput!;
    const outcome = await session.publish(classified.publication);
    switch (outcome.kind) {
      case "fenced":
      case "unknown":
        // Fenced: nothing was written, and what is acknowledged by now is another owner's.
        if (outcome.kind === "fenced") this.#unresolved = undefined;
        log.warn("publish did not succeed: the partition is opened again", { partition: this.partition, outcome: outcome.kind });
        this.#attempts += 1;
        return false;
      case "published":
        break;
      default:
        return unreachable(outcome);
    }
    failpoint("dedup:published");
    const publishedMs = clock.monotonicMs();
    if (this.#writing.kind === "between pages") await this.#writing.done;
    assert(this.#writing.kind === "none", "DDD7: a window has one writer at a time");
    this.#writing = { kind: "page" };
    const published = publishedIds(classified, outcome.outputFrom);
    await window.apply(published);
    assert(window.appliedOutput === published.next, "I1: the window is where the output is");
    await window.age(classified.publishedMs);
    this.#writing = NO_WRITING;
    session.keepOutputFrom?.(window.neededFrom);
    failpoint("dedup:applied");
    metrics.observe("dedup_publish_seconds", (publishedMs - startMs) / 1000);
    metrics.observe("dedup_apply_seconds", (clock.monotonicMs() - publishedMs) / 1000);
    const { deadLettersFrom, deadLetterOffsets } = outcome;
    this.#record(classified, outcome.outputFrom, (at) => deadLetterOffsets?.[at] ?? deadLettersFrom + BigInt(at));
    const { length: dead } = classified.publication.deadLetters;
    if (dead > 0) this.#deadLettersEnd = deadLettersFrom + BigInt(dead);
    this.#attempts = 0;
    return true;
  }

  /**
   * The fence has decided it: its input is acknowledged, or it was never written (I7). Where it is, the logs tell: their ends may lie
   * behind offsets that hold no message.
   */
  async #resolvePublish(session: LogSession): Promise<void> {
    const classified = this.#unresolved;
    const deadLetters = await this.#dependencies.log.bounds("dead-letters", this.partition);
    if (classified !== undefined && session.acknowledgedInput === classified.next) {
      const { publication } = classified;
      const outputFrom = await this.#findFirst("output", publication.output, this.#outputEnd, session.output.end);
      const { deadLetters: letters } = publication;
      const lettersFrom = await this.#findFirst("dead-letters", letters, this.#deadLettersEnd, deadLetters.end);
      const lastAt = await this.#findFirst("dead-letters", letters.slice(-1), lettersFrom, deadLetters.end);
      // Some may be an owner's before: then their offsets are not known here, and neither are the page's results.
      if (letters.length === 0 || lastAt === lettersFrom + BigInt(letters.length - 1))
        this.#record(classified, outputFrom, (at) => lettersFrom + BigInt(at));
    }
    this.#unresolved = undefined;
    this.#deadLettersEnd = deadLetters.end;
  }

  async #findFirst(topic: LogTopic, published: readonly NewMessage[], from: bigint, to: bigint): Promise<bigint> {
    const [first] = published;
    if (first === undefined) return to;
    const { inputOffset } = readStoredOrigin(first)!;
    const found = await findByInput(this.#dependencies.log, topic, this.partition, { start: from, end: to }, inputOffset);
    if (found !== undefined) return found;
    throw new ConcordError(
      "PARTITION_STOPPED",
      `input offset ${inputOffset} of partition ${this.partition} is acknowledged, and the ${topic} from ${from} to ${to} have nothing of it: ` +
        "restore the log from a copy in which they agree",
    );
  }

  #record(classified: ClassifiedPage, outputFrom: bigint, deadLetterAt: (position: number) => bigint): void {
    const { environment, sources } = this.#dependencies;
    const { metrics } = environment;
    assert(this.#unresolved === classified, "DD4: the results of a page are recorded once");
    this.#unresolved = undefined;
    metrics.observe("dedup_batch_messages", classified.kinds.length);
    for (const [kind, count] of Object.entries(countKinds(classified))) {
      this.#counts[kind as InputResult["kind"]] += count;
      if (count > 0) metrics.count("dedup_messages_total", count, { verdict: kind });
    }
    sources.add(classified.bySource);
    this.#results.record(classified, outputFrom, deadLetterAt);
  }

  async #closeWindow(): Promise<void> {
    const opened = this.#opened;
    this.#opened = undefined;
    await opened?.window.close();
  }

  #stopBy(error: ConcordError): void {
    const text = `partition ${this.partition} is stopped: ${error.message}`;
    const reason = new ConcordError("PARTITION_STOPPED", text, { metadata: { code: error.code }, cause: error });
    this.#dependencies.environment.log.error(text, { partition: this.partition, code: error.code });
    this.#state = { kind: "stopped", reason };
    this.#results.end(reason);
    this.#running.reject(reason);
    this.#stopped.resolve(reason);
  }
}

function takenByAnother(partition: number): ConcordError {
  return new ConcordError(
    "NOT_OWNER",
    `partition ${partition} belongs to another worker now: stop that one and start this one again to have it here`,
  );
}

/**
 * Trying again would find the same: a bug of ours, a log that does not have what was acknowledged, a window of another time. Another owner: whether
 * to open again is for those to say who know the owners.
 */
function isFinal(error: ConcordError): boolean {
  return error.kind === "rejected" || FINAL.has(error.code);
}

const FINAL: ReadonlySet<ErrorCode> = new Set<ErrorCode>(["PARTITION_STOPPED", "INTERNAL", "NOT_OWNER"]);

// The time by which object locks end: no clock that steps ends one early, and none that steps back shortens one that begins (OGD21).
import type { ObjectMetadata, RowVersion } from "@concord/ports";
import { assert, ConcordError, every, Task, type Clock, type Log, type Metrics } from "@concord/runtime";
import type { GuidSource } from "@concord/snowflake";
import { assertCommit } from "./commit-invariants.ts";
import { nextVersion, putRow } from "./row-writes.ts";
import { BoundedTime } from "./lifecycle/bounded-time.ts";
import { LOCK_TIME_LAG_REPORTED_MS, LOCK_TIME_RATE_MAX, LOCK_TIME_RENEW_MS } from "./limits.ts";
import { decodeRowAs } from "./row-codec.ts";
import { lockTimeKey, SYSTEM_PARTITION } from "./row-keys.ts";

/** What was believed at the first look, and goes on from there. */
interface Running {
  readonly bounded: BoundedTime;
  /** No time before it is believed: it goes on with monotonic time, whatever the wall clock says. */
  readonly floorMs: number;
  readonly floorAtMs: number;
}

interface Stored {
  readonly version: RowVersion;
  readonly timeMs: number;
}

/** The store's context as the time of locks uses it. */
export interface LockTimeContext {
  readonly metadata: ObjectMetadata;
  readonly clock: Clock;
  readonly guids: GuidSource;
  readonly log: Log;
  readonly metrics: Metrics;
}

/**
 * One row for all gateways says how far the time of locks has come. It is made before the first bucket with locks, grows at most LOCK_TIME_RATE_MAX
 * times as fast as monotonic time, and is what a gateway believes when it starts: also one whose clock is years ahead ends no lock.
 */
export class LockTime {
  readonly #context: LockTimeContext;
  #running: Running | undefined;
  readonly #task: Task;

  constructor(context: LockTimeContext) {
    this.#context = context;
    this.#task = new Task({
      ...context,
      name: "objects: time of locks",
      ...every(LOCK_TIME_RENEW_MS, () => this.renew()),
      failed: ({ message }) => context.log.warn("the time of object locks is not renewed", { reason: message }),
    });
  }

  /** The row of the time of locks was read, or made. */
  get hasBegun(): boolean {
    return this.#running !== undefined;
  }

  /** By which a lock has ended or has not: never after the wall clock, and never ahead of what was believed and the time that passed. */
  async judgeMs(): Promise<number> {
    return Math.floor((await this.#run()).bounded.nowMs());
  }

  /** From which a default retention counts: the time of the object, but never before a time that was believed. */
  async promiseMs(): Promise<number> {
    const { clock } = this.#context;
    const { floorMs, floorAtMs } = await this.#run();
    const promisedMs = Math.max(clock.nowMs(), Math.floor(floorMs + (clock.monotonicMs() - floorAtMs)));
    assert(promisedMs >= floorMs, "OGD21: no retention counts from before a time that was believed");
    return promisedMs;
  }

  /** The row is there: before anything can be locked. */
  async establish(): Promise<void> {
    await this.#run();
  }

  /** Writes down how far it has come, where there is anything to be locked. */
  async renew(): Promise<void> {
    const stored = await this.#read();
    if (stored === undefined) return;
    const { bounded } = this.#running ?? this.#begin(stored.timeMs);
    const { metrics, log } = this.#context;
    const lagMs = bounded.lagMs();
    metrics.gauge("objects_lock_time_lag_seconds", lagMs / 1000);
    if (lagMs >= LOCK_TIME_LAG_REPORTED_MS)
      log.warn("the clock is ahead of the time of object locks: it stepped, or no gateway ran; locks end later than their date", { lagMs });
    const timeMs = Math.floor(bounded.nowMs());
    // What another gateway wrote is later, or this one's clock went back: the row only grows.
    if (timeMs > stored.timeMs) await this.#write(stored, timeMs);
  }

  /** In the background, from now on. */
  start(): void {
    this.#task.start();
  }

  stop(): Promise<void> {
    return this.#task.stop();
  }

  async #run(): Promise<Running> {
    if (this.#running !== undefined) return this.#running;
    const stored = (await this.#read()) ?? (await this.#make());
    return this.#running ?? this.#begin(stored.timeMs);
  }

  #begin(timeMs: number): Running {
    assert(this.#running === undefined, "time is begun once");
    const { clock } = this.#context;
    const bounded = new BoundedTime(clock, LOCK_TIME_RATE_MAX);
    bounded.continueFrom(timeMs);
    this.#running = { bounded, floorMs: timeMs, floorAtMs: clock.monotonicMs() };
    return this.#running;
  }

  async #read(): Promise<Stored | undefined> {
    const [found] = await this.#context.metadata.read(SYSTEM_PARTITION, [lockTimeKey()]);
    return found === undefined ? undefined : { version: found.version, timeMs: decodeRowAs("lock-time", found.value).timeMs };
  }

  /** Nothing is locked anywhere: the wall clock is believed this once. */
  async #make(): Promise<Stored> {
    await this.#write(undefined, this.#context.clock.nowMs());
    const stored = await this.#read();
    if (stored === undefined)
      throw new ConcordError("REPLICAS_UNAVAILABLE", "the time of object locks could not be written", { applied: "no" });
    return stored;
  }

  /** A conflict is another gateway's write, and an unknown outcome is looked at the next time. */
  async #write(before: Stored | undefined, timeMs: number): Promise<void> {
    const { clock, guids, metadata } = this.#context;
    assert(before === undefined || timeMs > before.timeMs, "the time of locks grows");
    const commit = {
      partition: SYSTEM_PARTITION,
      conditions: [{ key: lockTimeKey(), version: before?.version }],
      writes: [putRow(lockTimeKey(), nextVersion(before?.version, clock, await guids.next()), { kind: "lock-time", timeMs })],
    };
    assertCommit(commit);
    await metadata.commit(commit);
  }
}

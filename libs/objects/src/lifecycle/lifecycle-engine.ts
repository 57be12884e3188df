import { sameVersion } from "@concord/ports";
import { assert, sleep, Task } from "@concord/runtime";
import { commitRepeatable } from "../commit-rows.ts";
import { nextVersion, putRow } from "../row-writes.ts";
import type { ObjectStoreContext } from "../context.ts";
import { assertGrown } from "../page-invariants.ts";
import { PassTurn } from "../pass-turn.ts";
import { decodeRowAs } from "../row-codec.ts";
import { lifecycleKey, SYSTEM_PARTITION } from "../row-keys.ts";
import type { LifecycleCounts, LifecyclePlace, LifecycleRow } from "../rows.ts";
import type { Versioned } from "../shard-view.ts";
import { BoundedTime } from "./bounded-time.ts";
import { bucketBehind, FIRST_ROWS, lifecyclePage, NOTHING_EXPIRED, type LifecyclePage, type RowsPlace } from "./lifecycle-page.ts";
import {
  LIFECYCLE_DAY_MS,
  LIFECYCLE_DEAD_AFTER_MS,
  LIFECYCLE_INTERVAL_MS,
  LIFECYCLE_LAG_REPORTED_MS,
  LIFECYCLE_LOOK_MS,
  LIFECYCLE_PAUSE_MS,
  LIFECYCLE_ROWS_PER_SECOND,
} from "./limits.ts";

export interface LifecycleOptions {
  readonly context: ObjectStoreContext;
  /** From the end of one pass to the beginning of the next. LIFECYCLE_INTERVAL_MS if absent. */
  readonly intervalMs?: number;
  /** LIFECYCLE_ROWS_PER_SECOND if absent. */
  readonly rowsPerSecond?: number;
  /** Length of a day of rules. LIFECYCLE_DAY_MS if absent; shorter in tests. */
  readonly dayMs?: number;
  /** No other gateway has these rows: a pass that this process did not begin is one of an earlier process. Not so if absent. */
  readonly isAlone?: boolean;
}

type Turn = { readonly kind: "ours"; readonly held: Versioned<LifecycleRow> | undefined } | { readonly kind: "not now" };

/**
 * Carries out the lifecycle rules of all buckets, at a pace, in the background, one gateway at a time. Its place is a row: after a restart or a
 * death the pass goes on there. Two at once would do no harm: each removal is a commit on exactly what was judged.
 */
export class LifecycleEngine {
  readonly #context: ObjectStoreContext;
  readonly #intervalMs: number;
  readonly #rowsPerSecond: number;
  readonly #dayMs: number;
  readonly #turns: PassTurn;
  readonly #time: BoundedTime;
  /** The row of an earlier process was seen: time goes on from there. */
  #continued = false;
  /** What was read faster than the rate allows. */
  #aheadMs = 0;
  readonly #task: Task;

  constructor({ context, intervalMs, rowsPerSecond, dayMs, isAlone }: LifecycleOptions) {
    this.#context = context;
    this.#intervalMs = intervalMs ?? LIFECYCLE_INTERVAL_MS;
    this.#rowsPerSecond = rowsPerSecond ?? LIFECYCLE_ROWS_PER_SECOND;
    this.#dayMs = dayMs ?? LIFECYCLE_DAY_MS;
    this.#turns = new PassTurn({ context, deadAfterMs: LIFECYCLE_DEAD_AFTER_MS, isAlone: isAlone ?? false });
    this.#time = new BoundedTime(context.clock);
    assert(this.#dayMs > 0 && this.#rowsPerSecond > 0, "a day has a length, and a pass a rate");
    const lookMs = Math.min(LIFECYCLE_LOOK_MS, this.#intervalMs);
    this.#task = new Task({
      ...context,
      name: "objects: lifecycle",
      step: async () => ((await this.#step()) ? 0 : lookMs),
      retryMs: () => lookMs,
      failed: ({ message }) => context.log.warn("the lifecycle pass goes on later", { reason: message }),
    });
  }

  start(): void {
    this.#task.start();
  }

  /** The page in progress is looked at again by the next process. */
  stop(): Promise<void> {
    return this.#task.stop();
  }

  /** Of all gateways; undefined: no bucket ever had rules. */
  async status(): Promise<LifecycleRow | undefined> {
    return (await this.#read())?.row;
  }

  /** A whole pass, now and without pauses, beside whatever runs: for operators and tests. Leaves the place of the background's pass alone. */
  async pass(): Promise<LifecycleCounts> {
    await this.#read();
    let counts = NOTHING_EXPIRED;
    for (let place: RowsPlace | undefined = FIRST_ROWS; place !== undefined;) {
      const page = await this.#page(place, () => Promise.resolve());
      counts = added(counts, page.counts);
      place = page.next;
    }
    return counts;
  }

  /** One page. False: there is nothing to do now. */
  async #step(): Promise<boolean> {
    const turn = await this.#turn();
    this.#reportLag();
    if (turn.kind === "not now") return false;
    const { held } = turn;
    if (held === undefined || held.row.place.kind === "ended") return await this.#replace(held, this.#beginning());
    const { row } = held;
    const page = await this.#page(held.row.place, this.#meter());
    const { metrics, log } = this.#context;
    const counts = added(row.counts, page.counts);
    const timeMs = this.#time.nowMs();
    const place: LifecyclePlace = page.next ?? { kind: "ended", endedMs: timeMs };
    const replaced = await this.#replace(held, { ...row, timeMs, counts, place });
    if (replaced && page.next === undefined) {
      metrics.count("objects_lifecycle_passes_total");
      metrics.observe("objects_lifecycle_pass_seconds", Math.max(0, timeMs - row.startedMs) / 1000);
      metrics.gauge("objects_lifecycle_kept", counts.kept);
      log.info("lifecycle pass ended", { ...counts });
    }
    return replaced;
  }

  async #page(place: RowsPlace, meter: (rows: number) => Promise<void>): Promise<LifecyclePage> {
    const page = await lifecyclePage(this.#context, place, { nowMs: this.#time.nowMs(), dayMs: this.#dayMs, meter });
    const { metrics } = this.#context;
    const { current, nonCurrent, markers, bytes, uploads } = page.counts;
    for (const [what, count] of Object.entries({ current, noncurrent: nonCurrent, marker: markers, upload: uploads }))
      if (count > 0) metrics.count("objects_lifecycle_expired_total", count, { what });
    metrics.count("objects_lifecycle_expired_bytes", bytes);
    return page;
  }

  async #turn(): Promise<Turn> {
    const held = await this.#read();
    // Without a row and without rules nothing is written.
    if (held === undefined) return (await bucketBehind(this.#context, "")) === undefined ? { kind: "not now" } : { kind: "ours", held };
    const { place } = held.row;
    // Far in the future: a clock that was ahead was set right.
    if (place.kind === "ended")
      return Math.abs(this.#time.nowMs() - place.endedMs) >= this.#intervalMs ? { kind: "ours", held } : { kind: "not now" };
    return (await this.#turns.isOurs(held.version)) ? { kind: "ours", held } : { kind: "not now" };
  }

  #beginning(): LifecycleRow {
    const timeMs = this.#time.nowMs();
    return { kind: "lifecycle", startedMs: timeMs, timeMs, place: FIRST_ROWS, counts: NOTHING_EXPIRED };
  }

  async #read(): Promise<Versioned<LifecycleRow> | undefined> {
    const [found] = await this.#context.metadata.read(SYSTEM_PARTITION, [lifecycleKey()]);
    const held = found === undefined ? undefined : { version: found.version, row: decodeRowAs("lifecycle", found.value) };
    // A process that was started with a wrong clock believes the one before it.
    if (!this.#continued && held !== undefined) this.#time.continueFrom(held.row.timeMs);
    this.#continued = true;
    return held;
  }

  /** False: another gateway was first, and this page is its page. */
  async #replace(held: Versioned<LifecycleRow> | undefined, row: LifecycleRow): Promise<boolean> {
    const { clock, guids } = this.#context;
    const version = nextVersion(held?.version, clock, await guids.next());
    const outcome = await commitRepeatable(this.#context, {
      partition: SYSTEM_PARTITION,
      conditions: [{ key: lifecycleKey(), version: held?.version }],
      writes: [putRow(lifecycleKey(), version, row)],
    });
    const done = outcome.kind === "committed" || (outcome.kind === "conflict" && sameVersion(outcome.rows[0]?.version, version));
    if (done) this.#turns.wrote(version);
    return done;
  }

  /** Sleeps once the looking is ahead of the rate by a notable time. */
  #meter(): (rows: number) => Promise<void> {
    return async (rows) => {
      this.#task.signal.throwIfAborted();
      this.#aheadMs += (rows * 1000) / this.#rowsPerSecond;
      if (this.#aheadMs < LIFECYCLE_PAUSE_MS) return;
      const pauseMs = Math.floor(this.#aheadMs);
      this.#aheadMs -= pauseMs;
      assert(this.#aheadMs >= 0, "a lifecycle pass pauses for no longer than it is ahead");
      await sleep(this.#context.clock, pauseMs, this.#task.signal);
      this.#task.signal.throwIfAborted();
    };
  }

  #reportLag(): void {
    const lagMs = this.#time.lagMs();
    this.#context.metrics.gauge("objects_lifecycle_lag_seconds", lagMs / 1000);
    if (lagMs >= LIFECYCLE_LAG_REPORTED_MS)
      this.#context.log.warn("the clock is ahead of the time of lifecycle rules: it stepped, or no gateway ran; they catch up", { lagMs });
  }
}

function added(left: LifecycleCounts, right: LifecycleCounts): LifecycleCounts {
  assertGrown(right);
  const names = Object.keys(left) as (keyof LifecycleCounts)[];
  return Object.fromEntries(names.map((name) => [name, left[name] + right[name]])) as unknown as LifecycleCounts;
}

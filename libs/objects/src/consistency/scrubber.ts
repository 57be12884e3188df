import { sameVersion, type RowVersion } from "@concord/ports";
import { assert, sleep, Task } from "@concord/runtime";
import { commitRepeatable } from "../commit-rows.ts";
import { nextVersion, putRow } from "../row-writes.ts";
import type { ObjectStoreContext } from "../context.ts";
import { assertGrown } from "../page-invariants.ts";
import { PassTurn } from "../pass-turn.ts";
import { decodeRowAs } from "../row-codec.ts";
import { scrubKey, SYSTEM_PARTITION } from "../row-keys.ts";
import type { ScrubCounts, ScrubPlace, ScrubRow } from "../rows.ts";
import type { Versioned } from "../shard-view.ts";
import {
  SCRUB_BYTES_PER_SECOND,
  SCRUB_DEAD_AFTER_MS,
  SCRUB_FINDINGS_KEPT,
  SCRUB_INTERVAL_MS,
  SCRUB_LOOK_MS,
  SCRUB_PAGE_TRIES,
  SCRUB_PAUSE_MS,
} from "./limits.ts";
import { isReadFailure } from "./row-findings.ts";
import { FIRST_PLACE, NOTHING_SCRUBBED, scrubPage, type Meter, type ScrubbedPage, type ScrubFinding } from "./scrub-page.ts";

/** The message of the log line of each finding. */
export const SCRUB_FINDING = "the scrub found what is wrong";

export interface ScrubberOptions {
  readonly context: ObjectStoreContext;
  /** From the end of one pass to the beginning of the next. SCRUB_INTERVAL_MS if absent. */
  readonly intervalMs?: number;
  /** SCRUB_BYTES_PER_SECOND if absent. */
  readonly bytesPerSecond?: number;
  /** No other gateway has these rows: a pass that this process did not begin is one of an earlier process. Not so if absent. */
  readonly isAlone?: boolean;
}

export interface ScrubStatus {
  /** As all gateways see it; undefined: none has begun. */
  readonly scrub: ScrubRow | undefined;
  /** The newest that this gateway found since its start. */
  readonly findings: readonly ScrubFinding[];
}

/** No other gateway moves this scrub on. */
type Turn = { readonly kind: "ours"; readonly held: Versioned<ScrubRow> } | { readonly kind: "not now" };

/**
 * The last line against leaks and rot (OGD9): reads all rows and blobs at a pace, in the background, one gateway at a time. Leaked blobs go to
 * collection; rows whose data is absent or damaged are reported. Its place is a row: after a restart, or at another gateway, it goes on.
 */
export class Scrubber {
  readonly #context: ObjectStoreContext;
  readonly #intervalMs: number;
  readonly #bytesPerSecond: number;
  readonly #findings: ScrubFinding[] = [];
  readonly #turns: PassTurn;
  /** Tries of the page at the place of this version in which the store could not read. */
  #failed: { readonly version: RowVersion; readonly tries: number } | undefined;
  /** What was read faster than the rate allows. */
  #aheadMs = 0;
  readonly #task: Task;

  constructor({ context, intervalMs, bytesPerSecond, isAlone }: ScrubberOptions) {
    this.#context = context;
    this.#turns = new PassTurn({ context, deadAfterMs: SCRUB_DEAD_AFTER_MS, isAlone: isAlone ?? false });
    this.#intervalMs = intervalMs ?? SCRUB_INTERVAL_MS;
    this.#bytesPerSecond = bytesPerSecond ?? SCRUB_BYTES_PER_SECOND;
    assert(this.#bytesPerSecond > 0, "a pass has a rate");
    const lookMs = Math.min(SCRUB_LOOK_MS, this.#intervalMs);
    this.#task = new Task({
      ...context,
      name: "objects: scrub",
      step: async () => ((await this.#step()) ? 0 : lookMs),
      retryMs: () => lookMs,
      failed: ({ message }) => context.log.warn("the scrub goes on later", { reason: message }),
    });
  }

  start(): void {
    this.#task.start();
  }

  /** The page in progress is read again by the next process. */
  stop(): Promise<void> {
    return this.#task.stop();
  }

  async status(): Promise<ScrubStatus> {
    return { scrub: (await this.#read())?.row, findings: [...this.#findings] };
  }

  /** A whole pass, now and without pauses, beside whatever runs: for operators and tests. Leaves the place of the background's pass alone. */
  async pass(): Promise<{ readonly counts: ScrubCounts; readonly findings: readonly ScrubFinding[] }> {
    const findings: ScrubFinding[] = [];
    let counts = NOTHING_SCRUBBED;
    for (let place: ScrubbedPage["next"] = FIRST_PLACE; place !== undefined;) {
      const page = await scrubPage(this.#context, place, { meter: () => Promise.resolve(), passesOver: true });
      this.#report(page);
      counts = added(counts, page.counts);
      findings.push(...page.findings.slice(0, SCRUB_FINDINGS_KEPT - findings.length));
      place = page.next;
    }
    return { counts, findings };
  }

  /** One page. False: there is nothing to do now. */
  async #step(): Promise<boolean> {
    const turn = await this.#turn();
    if (turn.kind === "not now") return false;
    const { row } = turn.held;
    if (row.place.kind === "ended") return await this.#replace(turn.held, this.#beginning());
    const page = await this.#page(turn.held.version, row.place);
    this.#report(page);
    const { clock, metrics, log } = this.#context;
    const counts = added(row.counts, page.counts);
    const place: ScrubPlace = page.next ?? { kind: "ended", endedMs: clock.nowMs() };
    const replaced = await this.#replace(turn.held, { ...row, counts, place });
    if (replaced && page.next === undefined) {
      metrics.count("objects_scrub_passes_total");
      log.info("scrub ended", { ...counts });
    }
    return replaced;
  }

  /** One blob that can never be read does not stop the scrub for good; a store that fails for a while makes no findings. */
  async #page(version: RowVersion, place: Parameters<typeof scrubPage>[1]): Promise<ScrubbedPage> {
    const tries = this.#failed !== undefined && sameVersion(this.#failed.version, version) ? this.#failed.tries : 0;
    try {
      return await scrubPage(this.#context, place, { meter: this.#meter(), passesOver: tries + 1 >= SCRUB_PAGE_TRIES });
    } catch (thrown) {
      if (isReadFailure(thrown)) this.#failed = { version, tries: tries + 1 };
      throw thrown;
    }
  }

  async #turn(): Promise<Turn> {
    const held = await this.#read();
    // The first pass begins an interval after the first start.
    if (held === undefined) {
      await this.#replace(undefined, { ...this.#beginning(), place: { kind: "ended", endedMs: this.#context.clock.nowMs() } });
      return { kind: "not now" };
    }
    const { place } = held.row;
    // Far in the future: a clock that was ahead was set right.
    if (place.kind === "ended")
      return Math.abs(this.#context.clock.nowMs() - place.endedMs) >= this.#intervalMs ? { kind: "ours", held } : { kind: "not now" };
    return (await this.#turns.isOurs(held.version)) ? { kind: "ours", held } : { kind: "not now" };
  }

  #beginning(): ScrubRow {
    return { kind: "scrub", startedMs: this.#context.clock.nowMs(), place: FIRST_PLACE, counts: NOTHING_SCRUBBED };
  }

  async #read(): Promise<Versioned<ScrubRow> | undefined> {
    const [found] = await this.#context.metadata.read(SYSTEM_PARTITION, [scrubKey()]);
    return found === undefined ? undefined : { version: found.version, row: decodeRowAs("scrub", found.value) };
  }

  /** False: another gateway was first, and this page is its page. */
  async #replace(held: Versioned<ScrubRow> | undefined, row: ScrubRow): Promise<boolean> {
    const { clock, guids } = this.#context;
    const version = nextVersion(held?.version, clock, await guids.next());
    const outcome = await commitRepeatable(this.#context, {
      partition: SYSTEM_PARTITION,
      conditions: [{ key: scrubKey(), version: held?.version }],
      writes: [putRow(scrubKey(), version, row)],
    });
    const done = outcome.kind === "committed" || (outcome.kind === "conflict" && sameVersion(outcome.rows[0]?.version, version));
    if (done) this.#turns.wrote(version);
    return done;
  }

  /** Sleeps once the reading is ahead of the rate by a notable time. */
  #meter(): Meter {
    return async (bytes) => {
      this.#aheadMs += (bytes * 1000) / this.#bytesPerSecond;
      if (this.#aheadMs < SCRUB_PAUSE_MS) return;
      const pauseMs = Math.floor(this.#aheadMs);
      this.#aheadMs -= pauseMs;
      assert(this.#aheadMs >= 0, "a pass pauses for no longer than it is ahead");
      await sleep(this.#context.clock, pauseMs, this.#task.signal);
      this.#task.signal.throwIfAborted();
    };
  }

  #report({ counts, findings }: ScrubbedPage): void {
    const { metrics, log } = this.#context;
    metrics.count("objects_scrub_bytes_total", counts.bytes);
    for (const finding of findings) {
      metrics.count("objects_scrub_findings_total", 1, { kind: finding.kind });
      log.error(SCRUB_FINDING, { ...finding });
      this.#findings.push(finding);
    }
    this.#findings.splice(0, this.#findings.length - SCRUB_FINDINGS_KEPT);
    assert(this.#findings.length <= SCRUB_FINDINGS_KEPT, "a bounded number of findings is kept");
  }
}

function added(left: ScrubCounts, right: ScrubCounts): ScrubCounts {
  assertGrown(right);
  const names = Object.keys(left) as (keyof ScrubCounts)[];
  return Object.fromEntries(names.map((name) => [name, left[name] + right[name]])) as unknown as ScrubCounts;
}

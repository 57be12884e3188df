import type { MessageSink } from "@concord/ports";
import { assert, backoffMs, sleep, Task } from "@concord/runtime";
import type { ObjectStoreContext } from "../context.ts";
import { assertForward, assertGrown } from "../page-invariants.ts";
import { decodeRowAs } from "../row-codec.ts";
import { afterKey, bucketPartition, bucketSpan, SYSTEM_PARTITION, usageKey, type EventTarget } from "../row-keys.ts";
import type { BucketRow } from "../rows.ts";
import { deliverShard, type PageOptions, type PageOutcome } from "./event-page.ts";
import { EVENT_AGE_MS_MAX, EVENT_BACKOFF, EVENT_BUCKETS_PAGE, EVENT_PAUSE_MS, EVENT_SCAN_MS, EVENTS_PER_SECOND } from "./limits.ts";
import { waitingOf } from "./outbox.ts";
import { EVENTS_DOCUMENT } from "./rules.ts";

export type { WaitingEvent } from "./event-page.ts";

export interface EventDeliveryOptions {
  readonly context: ObjectStoreContext;
  /** The message of an event. */
  readonly encode: PageOptions["encode"];
  /** Undefined: this tenant has no such target. */
  readonly sink: (to: EventTarget) => MessageSink | undefined;
  /** EVENT_SCAN_MS if absent. */
  readonly scanMs?: number;
  /** EVENTS_PER_SECOND if absent. */
  readonly eventsPerSecond?: number;
  /** EVENT_AGE_MS_MAX if absent. Below the time for which the services behind the targets remember ids. */
  readonly maxAgeMs?: number;
  /** What becomes of older ones: they stay until an operator decides, are sent although they may come out twice, or are dropped. */
  readonly overdue?: PageOptions["overdue"];
}

export type DeliveryReport = PageOutcome;

const NOTHING: DeliveryReport = { accepted: 0, duplicate: 0, dropped: 0, kept: 0 };

/**
 * Delivers events in the background, at a pace: this gateway's own at once, those of gateways that are gone by a scan of the buckets that ever
 * had rules. Any number of gateways may do so at once: the target takes each event once.
 */
export class EventDelivery {
  readonly #options: Required<EventDeliveryOptions>;
  /** Targets that fail: how often in a row, and from when on they are tried again. */
  readonly #failing = new Map<string, { readonly failures: number; readonly againMs: number }>();
  #scanAtMs = Number.NEGATIVE_INFINITY;
  #aheadMs = 0;
  #met = { oldestMs: 0, overdue: 0 };
  #reportedOverdue = 0;
  readonly #task: Task;

  constructor(options: EventDeliveryOptions) {
    this.#options = {
      scanMs: EVENT_SCAN_MS,
      eventsPerSecond: EVENTS_PER_SECOND,
      maxAgeMs: EVENT_AGE_MS_MAX,
      overdue: "keep",
      ...options,
    };
    assert(this.#options.maxAgeMs > 0 && this.#options.eventsPerSecond > 0, "events have an age, and their delivery a rate");
    const { context, scanMs } = this.#options;
    this.#task = new Task({
      ...context,
      name: "objects: delivery of events",
      step: () => this.#round(),
      retryMs: () => Math.min(scanMs, EVENT_BACKOFF.maxMs),
      failed: ({ message }) => context.log.warn("events are delivered later", { reason: message }),
    });
  }

  start(): void {
    this.#options.context.outbox.onEvents(() => this.#task.wake());
    this.#task.start();
  }

  /** What is on its way is sent again by the next process or another gateway, and is a duplicate then. */
  stop(): Promise<void> {
    return this.#task.stop();
  }

  /** Everything that waits, of all gateways, once, now and without a pace; failing targets too. For tests and operators. */
  async pass(): Promise<DeliveryReport> {
    this.#failing.clear();
    await this.#scan();
    return this.#deliver(() => Promise.resolve());
  }

  /** How long until there is something to do. */
  async #round(): Promise<number> {
    const { clock } = this.#options.context;
    if (clock.monotonicMs() >= this.#scanAtMs) {
      await this.#scan();
      this.#scanAtMs = clock.monotonicMs() + this.#options.scanMs;
    }
    const { kept } = await this.#deliver((events) => this.#pace(events));
    const next = kept === 0 ? [] : [...this.#failing.values()].map(({ againMs }) => againMs);
    return Math.max(1, Math.min(this.#scanAtMs, ...next) - clock.monotonicMs());
  }

  async #deliver(meter: PageOptions["meter"]): Promise<DeliveryReport> {
    const { context } = this.#options;
    const partitions = new Set(context.outbox.take());
    let report = NOTHING;
    this.#met = { oldestMs: 0, overdue: 0 };
    try {
      for (const partition of partitions) {
        const outcome = await this.#deliverShard(partition, meter);
        if (outcome.kept === 0) partitions.delete(partition);
        report = added(report, outcome);
      }
    } finally {
      // Also those that an error kept from being looked at.
      for (const partition of partitions) context.outbox.mayHave(partition);
    }
    this.#reportAges();
    for (const answer of ["accepted", "duplicate", "dropped"] as const)
      if (report[answer] > 0) context.metrics.count("objects_events_delivered_total", report[answer], { answer });
    return report;
  }

  #deliverShard(partition: string, meter: PageOptions["meter"]): Promise<PageOutcome> {
    const { context, encode, maxAgeMs, overdue } = this.#options;
    return deliverShard(context, {
      partition,
      encode,
      maxAgeMs,
      overdue,
      meter,
      sink: (to) => this.#sinkFor(to),
      failed: (to, cause) => this.#failed(to, cause),
      worked: (to) => void this.#failing.delete(nameOf(to)),
      metAge: (ageMs, isOverdue) => this.#metAge(ageMs, isOverdue),
      signal: this.#task.signal,
    });
  }

  /** A target that changed hands since an event was written is not this tenant's any more. */
  #sinkFor(to: EventTarget): MessageSink | undefined {
    const { context, sink } = this.#options;
    if ((this.#failing.get(nameOf(to))?.againMs ?? 0) > context.clock.monotonicMs()) return undefined;
    const found = sink(to);
    if (found === undefined) this.#failed(to, "the tenant has no such target in the configuration");
    return found;
  }

  #failed(to: EventTarget, cause: string): void {
    const { clock, metrics, log } = this.#options.context;
    const failures = (this.#failing.get(nameOf(to))?.failures ?? 0) + 1;
    const nowMs = clock.monotonicMs();
    const againMs = nowMs + backoffMs(EVENT_BACKOFF, failures);
    assert(againMs > nowMs, "a target that fails is tried again after a pause");
    this.#failing.set(nameOf(to), { failures, againMs });
    metrics.count("objects_events_failed_total");
    log.warn("events stay: their target fails; it is tried again", { ...to, failures, reason: cause });
  }

  #metAge(ageMs: number, isOverdue: boolean): void {
    this.#met.oldestMs = Math.max(this.#met.oldestMs, ageMs);
    if (isOverdue) this.#met.overdue += 1;
  }

  /** Every shard of a bucket that ever had rules and where events wait; what the counters say of all. */
  async #scan(): Promise<void> {
    const { context } = this.#options;
    const total = { events: 0, bytes: 0 };
    for await (const bucket of this.#buckets()) {
      for (let shard = 0; shard < bucket.shards; shard += 1) {
        this.#task.signal.throwIfAborted();
        const partition = bucketPartition(bucket.name, shard);
        const { events, bytes } = waitingOf(await context.metadata.readCounters(partition, usageKey()));
        if (events > 0) context.outbox.mayHave(partition);
        total.events += events;
        total.bytes += bytes;
      }
    }
    context.outbox.scanned(total.bytes);
    this.#report(total);
  }

  #report(total: { readonly events: number; readonly bytes: number }): void {
    const { metrics } = this.#options.context;
    metrics.gauge("objects_events_waiting", total.events);
    metrics.gauge("objects_events_waiting_bytes", total.bytes);
  }

  #reportAges(): void {
    const { metrics, log } = this.#options.context;
    const { oldestMs, overdue } = this.#met;
    metrics.gauge("objects_events_oldest_seconds", oldestMs / 1000);
    metrics.gauge("objects_events_overdue", overdue);
    if (overdue > this.#reportedOverdue)
      log.error("events are too old to be sent: their target may have forgotten whether it has them (eventsOverdue)", { events: overdue });
    this.#reportedOverdue = overdue;
  }

  /** Removed ones, too: events outlive their bucket, and its row stays as long as they do. */
  async *#buckets(): AsyncGenerator<BucketRow, void, undefined> {
    const { metadata } = this.#options.context;
    const span = bucketSpan();
    for (let { from } = span; ;) {
      const rows = await metadata.range(SYSTEM_PARTITION, { from, to: span.to, limit: EVENT_BUCKETS_PAGE });
      for (const { value } of rows) {
        const row = decodeRowAs("bucket", value);
        if (row.settings?.documents[EVENTS_DOCUMENT] !== undefined) yield row;
      }
      if (rows.length < EVENT_BUCKETS_PAGE) return;
      from = assertForward(from, afterKey(rows.at(-1)!.key));
    }
  }

  /** Sleeps once the delivery is ahead of its rate by a notable time. */
  async #pace(events: number): Promise<void> {
    const { context, eventsPerSecond } = this.#options;
    this.#aheadMs += (events * 1000) / eventsPerSecond;
    if (this.#aheadMs < EVENT_PAUSE_MS) return;
    const pauseMs = Math.floor(this.#aheadMs);
    this.#aheadMs -= pauseMs;
    assert(this.#aheadMs >= 0, "a delivery pauses for no longer than it is ahead");
    await sleep(context.clock, pauseMs, this.#task.signal);
    this.#task.signal.throwIfAborted();
  }
}

const nameOf = ({ tenant, target }: EventTarget): string => JSON.stringify([tenant, target]);

function added(left: DeliveryReport, right: DeliveryReport): DeliveryReport {
  assertGrown(right);
  return {
    accepted: left.accepted + right.accepted,
    duplicate: left.duplicate + right.duplicate,
    dropped: left.dropped + right.dropped,
    kept: left.kept + right.kept,
  };
}

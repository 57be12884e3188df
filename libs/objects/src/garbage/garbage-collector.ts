import { sameVersion, type MetadataRow, type MetadataWrite, type RowVersion } from "@concord/ports";
import { assert, every, Task, toConcordError } from "@concord/runtime";
import { scanBuckets } from "../bucket-row.ts";
import { forgetBucket, isUnresolved, resolveBucket } from "../buckets.ts";
import type { ObjectStoreContext } from "../context.ts";
import { assertForward } from "../page-invariants.ts";
import { decodeRowAs } from "../row-codec.ts";
import { afterKey, bucketPartition, garbageSpan, SYSTEM_PARTITION } from "../row-keys.ts";
import type { BucketRow } from "../rows.ts";
import type { Versioned } from "../shard-view.ts";
import { collectRow, eachOf } from "./collect-row.ts";
import { GatheredReads } from "./gathered-reads.ts";
import { BUCKET_STUCK_AFTER_MS, COUNT_PAGE_ROWS, GARBAGE_BATCH_ROWS, GARBAGE_INTERVAL_MS, GC_ENTRIES_CONCURRENT } from "./limits.ts";

export interface GarbageReport {
  /** GC entries that were collected. */
  readonly rows: number;
  /** Blobs that are gone, and what they held. */
  readonly blobs: number;
  readonly bytes: number;
  /** Blobs that are garbage and yet named by a row: kept, and an error in the log. Expected: 0. */
  readonly referenced: number;
  /** Rows that stay for the next run because something failed. */
  readonly kept: number;
  /** Removed buckets of which nothing is left. */
  readonly bucketsForgotten: number;
}

export interface GarbageCollectorOptions {
  readonly context: ObjectStoreContext;
  readonly intervalMs?: number;
}

/** A report being built. */
type Run = { -readonly [Name in keyof GarbageReport]: number } & {
  readonly asOfMs: number;
  /** GUIDs of rows that this run wrote in place of others. */
  readonly written: Set<bigint>;
};

/**
 * Removes what is garbage and due, in the background (OG12, OGD10). Any number of gateways may do it at once: removal is idempotent, and
 * of two commits of a GC entry one finds it gone.
 */
export class GarbageCollector {
  readonly #context: ObjectStoreContext;
  /** Buckets that were being made or removed when they were last looked at. */
  readonly #unresolved = new Map<string, { readonly version: RowVersion; readonly sinceMs: number }>();
  readonly #task: Task;
  #running: Promise<GarbageReport> | undefined;

  constructor(options: GarbageCollectorOptions) {
    this.#context = options.context;
    const intervalMs = options.intervalMs ?? GARBAGE_INTERVAL_MS;
    this.#task = new Task({
      ...options.context,
      name: "objects: garbage collection",
      ...every(intervalMs, () => this.runOnce()),
      failed: ({ message }) => this.#context.log.warn("garbage collection did not end; it goes on later", { reason: message }),
    });
  }

  start(): void {
    this.#task.start();
  }

  /** After the batch in progress. */
  async stop(): Promise<void> {
    await this.#task.stop();
    await this.#running?.catch(() => undefined);
  }

  /** Joins a run in progress. */
  runOnce(): Promise<GarbageReport> {
    this.#running ??= this.#run(this.#context.clock.nowMs()).finally(() => (this.#running = undefined));
    return this.#running;
  }

  /**
   * As if it were `aheadMs` later; above 0 it breaks the grace of running downloads (OGD10), so it is for tests and for operators who stopped
   * the traffic. Also tells how many GC entries are not due yet.
   */
  async runAhead(aheadMs: number): Promise<GarbageReport & { readonly pending: number }> {
    await this.#running?.catch(() => undefined);
    const report = await this.#run(this.#context.clock.nowMs() + aheadMs);
    return { ...report, pending: (await this.#countRows()) - report.kept };
  }

  async #run(asOfMs: number): Promise<GarbageReport> {
    const run: Run = { asOfMs, written: new Set(), rows: 0, blobs: 0, bytes: 0, referenced: 0, kept: 0, bucketsForgotten: 0 };
    for await (const { partition, removed } of this.#partitions()) {
      if (this.#task.signal.aborted) break;
      await this.#collectPartition(partition, run);
      if (removed !== undefined && (await forgetBucket(this.#context, removed))) run.bucketsForgotten += 1;
    }
    const { asOfMs: _, written: __, ...report } = run;
    const { metrics, log } = this.#context;
    metrics.count("objects_garbage_removed_total", report.blobs);
    metrics.count("objects_garbage_removed_bytes", report.bytes);
    metrics.gauge("objects_garbage_kept", report.kept);
    if (report.rows > 0 || report.kept > 0) log.info("garbage collected", { ...report });
    return report;
  }

  /** All that may hold garbage; `removed` comes with the last one of a removed bucket. */
  async *#partitions(): AsyncGenerator<
    { readonly partition: string; readonly removed: Versioned<BucketRow> | undefined },
    void,
    undefined
  > {
    yield { partition: SYSTEM_PARTITION, removed: undefined };
    for await (const bucket of scanBuckets(this.#context)) {
      const { name, shards, state } = bucket.row;
      if (this.#isStuck(bucket)) await this.#resolve(bucket);
      for (let shard = 0; shard < shards; shard += 1) {
        const isLast = shard === shards - 1;
        yield { partition: bucketPartition(name, shard), removed: isLast && state === "removed" ? bucket : undefined };
      }
    }
  }

  /** Its making or removal ended in a request whose store did not answer, or in another gateway that is gone. */
  #isStuck({ row, version }: Versioned<BucketRow>): boolean {
    if (!isUnresolved(row)) {
      this.#unresolved.delete(row.name);
      return false;
    }
    const nowMs = this.#context.clock.monotonicMs();
    const seen = this.#unresolved.get(row.name);
    if (seen !== undefined && sameVersion(seen.version, version)) return nowMs - seen.sinceMs >= BUCKET_STUCK_AFTER_MS;
    this.#unresolved.set(row.name, { version, sinceMs: nowMs });
    return false;
  }

  async #resolve(bucket: Versioned<BucketRow>): Promise<void> {
    await resolveBucket(this.#context, bucket).catch((thrown: unknown) => {
      this.#context.log.warn("a bucket is not resolved yet", { bucket: bucket.row.name, reason: toConcordError(thrown).message });
    });
  }

  /** In the order of their due times, a batch at a time; rows that fail are passed over and stay. */
  async #collectPartition(partition: string, run: Run): Promise<void> {
    let { from } = garbageSpan();
    const { to } = garbageSpan(run.asOfMs);
    while (!this.#task.signal.aborted) {
      const onUnreadable = (): void => {
        this.#context.metrics.count("objects_rows_unreadable_total");
        run.kept += 1;
      };
      const page = await this.#context.metadata.range(partition, { from, to, limit: GARBAGE_BATCH_ROWS, onUnreadable });
      const done: MetadataRow[] = [];
      const instead: MetadataWrite[] = [];
      const context = gatheringReads(this.#context);
      // Together: they share the data store's look at each epoch and the sync of its removals.
      await eachOf(page, GC_ENTRIES_CONCURRENT, async (row) => {
        // An entry that this run wrote in another's place is not due in this run.
        if (run.written.has(row.version.guid)) return;
        if (await this.#collect(context, partition, row, instead, run)) done.push(row);
        else run.kept += 1;
      });
      await this.#forget(partition, done, instead, run);
      if (page.length < GARBAGE_BATCH_ROWS) return;
      from = assertForward(from, afterKey(page.at(-1)!.key));
    }
  }

  /** False: the row stays (OGD10: an oid is never forgotten after an error). */
  async #collect(context: ObjectStoreContext, partition: string, row: MetadataRow, instead: MetadataWrite[], run: Run): Promise<boolean> {
    const { log } = context;
    try {
      const garbage = decodeRowAs("garbage", row.value);
      const collected = await collectRow(context, partition, garbage, run.asOfMs);
      assert(collected.referenced.length === 0 || collected.instead.length > 0, "OGD10: a blob that is kept is not forgotten");
      run.blobs += collected.blobs;
      run.bytes += collected.bytes;
      run.referenced += collected.referenced.length;
      for (const write of collected.instead) if (write.kind === "put") run.written.add(write.row.version.guid);
      instead.push(...collected.instead);
      for (const oid of collected.referenced)
        log.error("garbage is named by a row; it is kept", { oid, bucket: garbage.bucket, key: garbage.key });
      return true;
    } catch (thrown) {
      log.warn("garbage could not be collected; it stays", { partition, reason: toConcordError(thrown).message });
      return false;
    }
  }

  /** The rows go after their data (OGD10), all as they were read. Whatever the answer, what is still there is collected again. */
  async #forget(partition: string, done: readonly MetadataRow[], instead: readonly MetadataWrite[], run: Run): Promise<void> {
    assert(instead.length <= done.length, "OGD10: a GC entry has at most one in its place");
    if (done.length === 0) return;
    this.#context.failpoint("garbage:before-forget");
    const outcome = await this.#context.metadata.commit({
      partition,
      conditions: done.map(({ key, version }) => ({ key, version })),
      writes: [...done.map(({ key }) => ({ kind: "delete", key }) as const), ...instead],
    });
    this.#context.failpoint("garbage:after-forget");
    if (outcome.kind === "committed") run.rows += done.length;
    else if (outcome.kind === "unknown") run.kept += done.length;
  }

  async #countRows(): Promise<number> {
    let count = 0;
    for await (const { partition } of this.#partitions()) {
      let { from } = garbageSpan();
      const { to } = garbageSpan();
      for (;;) {
        const onUnreadable = (): void => void (count += 1);
        const page = await this.#context.metadata.range(partition, { from, to, limit: COUNT_PAGE_ROWS, onUnreadable });
        count += page.length;
        if (page.length < COUNT_PAGE_ROWS) break;
        from = assertForward(from, afterKey(page.at(-1)!.key));
      }
    }
    return count;
  }
}

/** The context of one batch, whose reads go together. */
function gatheringReads(context: ObjectStoreContext): ObjectStoreContext {
  const { metadata } = context;
  const gathered = new GatheredReads(metadata);
  return {
    ...context,
    metadata: {
      read: (partition, keys) => gathered.read(partition, keys),
      range: (partition, range) => metadata.range(partition, range),
      readCounters: (partition, key) => metadata.readCounters(partition, key),
      commit: (commit) => metadata.commit(commit),
    },
  };
}

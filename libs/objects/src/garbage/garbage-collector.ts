import type { MetadataRow, MetadataWrite } from "@concord/ports";
import { sleep, toConcordError } from "@concord/runtime";
import { scanBuckets } from "../bucket-row.ts";
import { forgetBucket } from "../buckets.ts";
import type { ObjectStoreContext } from "../context.ts";
import { decodeRowAs } from "../row-codec.ts";
import { afterKey, bucketPartition, garbageSpan, SYSTEM_PARTITION } from "../row-keys.ts";
import { collectRow } from "./collect-row.ts";
import { GARBAGE_BATCH_ROWS, GARBAGE_INTERVAL_MS } from "./limits.ts";

export interface GarbageReport {
  /** Garbage rows that were dealt with. */
  readonly rows: number;
  /** Pieces that are gone. */
  readonly removed: number;
  /** Pieces that are garbage and yet named by a row: kept, and an error in the log. Expected: 0. */
  readonly referenced: number;
  /** Rows that stay for the next run because a store failed. */
  readonly failed: number;
  /** Removed buckets of which nothing is left. */
  readonly bucketsForgotten: number;
}

export interface GarbageCollectorOptions {
  readonly context: ObjectStoreContext;
  readonly intervalMs?: number;
}

/**
 * Removes what is garbage and due, in the background (OG12, OGD10). Any number of gateways may do it at once: removing twice is removing, and
 * of two commits of a garbage row one finds it gone.
 */
export class GarbageCollector {
  readonly #context: ObjectStoreContext;
  readonly #intervalMs: number;
  readonly #stopping = new AbortController();
  #loop: Promise<void> | undefined;
  #running: Promise<GarbageReport> | undefined;

  constructor(options: GarbageCollectorOptions) {
    this.#context = options.context;
    this.#intervalMs = options.intervalMs ?? GARBAGE_INTERVAL_MS;
  }

  start(): void {
    this.#loop ??= this.#runAtIntervals();
  }

  /** After the batch in progress. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running?.catch(() => undefined);
    await this.#loop;
  }

  /** Joins a run in progress. */
  runOnce(): Promise<GarbageReport> {
    this.#running ??= this.#run(this.#context.clock.nowMs()).finally(() => (this.#running = undefined));
    return this.#running;
  }

  /** Garbage due later too: only when nobody reads, as in tests and after an operator stopped the traffic. */
  async runIgnoringGrace(): Promise<GarbageReport> {
    await this.#running?.catch(() => undefined);
    return await this.#run(Number.MAX_SAFE_INTEGER - 1);
  }

  async #runAtIntervals(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      await this.runOnce().catch((thrown: unknown) => {
        this.#context.log.warn("garbage collection did not end; it goes on later", { reason: toConcordError(thrown).message });
      });
      await sleep(this.#context.clock, this.#intervalMs, this.#stopping.signal);
    }
  }

  async #run(dueMs: number): Promise<GarbageReport> {
    const total = { rows: 0, removed: 0, referenced: 0, failed: 0, bucketsForgotten: 0 };
    await this.#collectPartition(SYSTEM_PARTITION, dueMs, total);
    for await (const bucket of scanBuckets(this.#context)) {
      const { name, shards, state } = bucket.row;
      for (let shard = 0; shard < shards; shard += 1) await this.#collectPartition(bucketPartition(name, shard), dueMs, total);
      if (this.#stopping.signal.aborted) break;
      if (state === "removed" && (await forgetBucket(this.#context, bucket))) total.bucketsForgotten += 1;
    }
    const { metrics, log } = this.#context;
    metrics.count("object_garbage_removed_total", total.removed);
    metrics.gauge("object_garbage_failed_rows", total.failed);
    if (total.rows > 0 || total.failed > 0) log.info("garbage collected", { ...total });
    return total;
  }

  /** In the order of their due times, a batch at a time; rows that fail are passed over and stay. */
  async #collectPartition(partition: string, dueMs: number, total: { -readonly [Name in keyof GarbageReport]: number }): Promise<void> {
    let { from } = garbageSpan();
    const { to } = dueMs >= Number.MAX_SAFE_INTEGER - 1 ? garbageSpan() : garbageSpan(dueMs);
    while (!this.#stopping.signal.aborted) {
      const page = await this.#context.metadata.range(partition, { from, to, limit: GARBAGE_BATCH_ROWS });
      const last = page.at(-1);
      if (last === undefined) return;
      const done: MetadataRow[] = [];
      const instead: MetadataWrite[] = [];
      for (const row of page) {
        if (await this.#collect(partition, row, instead, total)) done.push(row);
        else total.failed += 1;
      }
      await this.#forget(partition, done, instead, total);
      if (page.length < GARBAGE_BATCH_ROWS) return;
      from = afterKey(last.key);
    }
  }

  /** False: the row stays (OGD10: an oid is never forgotten after an error). */
  async #collect(
    partition: string,
    row: MetadataRow,
    instead: MetadataWrite[],
    total: { removed: number; referenced: number },
  ): Promise<boolean> {
    const { log } = this.#context;
    try {
      const garbage = decodeRowAs("garbage", row.value);
      const collected = await collectRow(this.#context, partition, garbage);
      total.removed += collected.removed;
      total.referenced += collected.referenced.length;
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
  async #forget(
    partition: string,
    done: readonly MetadataRow[],
    instead: readonly MetadataWrite[],
    total: { rows: number; failed: number },
  ): Promise<void> {
    if (done.length === 0) return;
    this.#context.killPoint("garbage:before-forget");
    const outcome = await this.#context.metadata.commit({
      partition,
      conditions: done.map(({ key, version }) => ({ key, version })),
      writes: [...done.map(({ key }) => ({ kind: "delete", key }) as const), ...instead],
    });
    this.#context.killPoint("garbage:after-forget");
    if (outcome.kind === "committed") total.rows += done.length;
    else total.failed += outcome.kind === "unknown" ? done.length : 0;
  }
}

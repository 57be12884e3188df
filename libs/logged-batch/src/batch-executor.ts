import type { BatchRequest, BatchResult } from "@concord/ports";
import { assert, ConcordError, silentLog, silentMetrics, type Checksum, type Log, type Metrics, type TimestampUs } from "@concord/runtime";
import { encodeEntry } from "./batch-entry.ts";
import type { ForgottenDeletions } from "./batch-log.ts";
import type { BatchRing } from "./batch-node.ts";
import { BatchRuns } from "./batch-runs.ts";
import { executeBatch, type BatchSteps, type PreparedBatch } from "./execute-batch.ts";
import { HolderLane } from "./holder-lane.ts";

export interface BatchExecutorOptions {
  readonly ring: BatchRing;
  /** This node's own. */
  readonly batchLog: BatchSteps["batchLog"];
  readonly checksum: Checksum;
  /** This node's write clock. */
  readonly drawTimestampUs: () => TimestampUs;
  /** Of this node. */
  readonly forgotten?: ForgottenDeletions;
  readonly log?: Log;
  readonly metrics?: Metrics;
}

/** Executes batches for clients of this node, and what goes on behind the answer. */
export class BatchExecutor {
  readonly #ring: BatchRing;
  readonly #checksum: Checksum;
  readonly #runs: BatchRuns;
  readonly #lanes: ReadonlyMap<string, HolderLane>;
  readonly #steps: BatchSteps;

  constructor(options: BatchExecutorOptions) {
    this.#ring = options.ring;
    this.#checksum = options.checksum;
    const log = options.log ?? silentLog;
    this.#runs = new BatchRuns({
      clock: options.ring.clock,
      checksum: options.checksum,
      drawTimestampUs: options.drawTimestampUs,
      metrics: options.metrics ?? silentMetrics,
      log,
      run: (batch) => this.#run(batch, options.forgotten),
    });
    const { clock, writeTimeoutMs } = this.#ring;
    this.#lanes = new Map(
      this.#ring.nodes.map((node) => {
        const onFailed = (error: Error): void => log.debug("a holder did not answer", { holder: node.name, reason: error.message });
        return [node.name, new HolderLane({ node, clock, timeoutMs: writeTimeoutMs, onFailed })];
      }),
    );
    assert(this.#lanes.size === this.#ring.nodes.length, "I1: each node has a lane of its own");
    this.#steps = {
      ring: this.#ring,
      seal: (batch, holders) => this.#seal(batch, holders),
      laneOf: (node) => this.#lanes.get(node.name)!,
      batchLog: options.batchLog,
    };
  }

  /** A reader waits for rows of a batch of this node (I5): its decision leaves now. */
  want(): void {
    for (const lane of this.#lanes.values()) lane.want();
  }

  /** Sends what waits; resolves when the holders have answered, after one write timeout at the latest. What is lost is left to replay. */
  async stop(): Promise<void> {
    await Promise.all([...this.#lanes.values()].map((lane) => lane.stop()));
  }

  /** Batches running now. */
  get executing(): number {
    return this.#runs.executing;
  }

  /** As `executeBatch` and `BatchRuns.execute`. */
  execute(request: BatchRequest): Promise<BatchResult> {
    return this.#runs.execute(request);
  }

  /** TIMESTAMP_OUT_OF_RANGE: as old as a deletion that is forgotten here; a repeat of a batch that old could bring rows back that were deleted since. */
  #run(batch: PreparedBatch, forgotten: ForgottenDeletions | undefined): Promise<BatchResult> {
    if (forgotten === undefined || batch.timestampUs > forgotten.newestUs) return executeBatch(this.#steps, batch);
    const text = `deletions up to timestamp ${forgotten.newestUs} are forgotten: what was deleted since this batch's timestamp could come back`;
    return Promise.reject(new ConcordError("TIMESTAMP_OUT_OF_RANGE", text, { metadata: { batchId: batch.id } }));
  }

  #seal(batch: PreparedBatch, holders: readonly string[]): Uint8Array {
    const { id, timestampUs, rowCount, mutations } = batch;
    assert(batch.logged && holders.length > 0, "only a logged batch has an entry (LB12)");
    assert(new Set(holders).size === holders.length, "I1: two holders are two nodes");
    assert(holders.length === this.#ring.nodes.length, "LBD15: every replica is a holder");
    assert(holders.at(-1) === this.#ring.self, "LBD4: the coordinator is the last to replay");
    assert(mutations.length > 0 && rowCount <= mutations.length, "LB15: the entry is the whole batch");
    const createdMs = this.#ring.clock.nowMs();
    return encodeEntry({ id, coordinator: this.#ring.self, createdMs, timestampUs, holders, rowCount, mutations }, this.#checksum);
  }
}

import type { Engine } from "@concord/engine";
import type { KeyValue, KeyValueEntry, StepRunner, StoreStep } from "@concord/ports";
import { decodeRowKey, encodePartition } from "@concord/rows";
import { storedRowKey } from "@concord/quorum";
import { toConcordError, type Environment, type Timer } from "@concord/runtime";
import { PURGE_INTERVAL_MS, PURGE_MARGIN_MS, PURGE_PARTITIONS_MAX, PURGE_ROWS_MAX, PURGE_STEP_ROWS_MAX } from "./limits.ts";

export const OUTCOMES_TABLE = "concord_outcomes";
export const OUTCOME_BUCKET_MS = 60_000;

export interface OutcomePurgeOptions {
  readonly engine: Engine;
  readonly environment: Environment;
  readonly outcomeRetentionMs: number;
}

/** Purges at an interval, in the background. */
export class OutcomePurge {
  readonly #options: OutcomePurgeOptions;
  #state: { readonly kind: "stopped" } | { readonly kind: "waiting"; readonly timer: Timer } | { readonly kind: "running" } = {
    kind: "stopped",
  };

  constructor(options: OutcomePurgeOptions) {
    this.#options = options;
  }

  start(): void {
    const timer = this.#options.environment.clock.setTimer(PURGE_INTERVAL_MS, () => void this.#run());
    this.#state = { kind: "waiting", timer };
  }

  /** No further run begins. */
  stop(): void {
    if (this.#state.kind === "waiting") this.#state.timer.cancel();
    this.#state = { kind: "stopped" };
  }

  async #run(): Promise<void> {
    const { engine, environment, outcomeRetentionMs } = this.#options;
    this.#state = { kind: "running" };
    try {
      const rows = await purgeOutcomes({ reader: engine, runner: engine, nowMs: environment.clock.nowMs(), outcomeRetentionMs });
      environment.metrics.count("storage_outcomes_purged_total", rows);
    } catch (thrown) {
      environment.log.warn("purging old outcomes failed", { reason: toConcordError(thrown).message });
    }
    if (this.#state.kind === "running") this.start();
  }
}

export interface PurgeOptions {
  readonly reader: { range: KeyValue["range"] };
  readonly runner: StepRunner;
  readonly nowMs: number;
  readonly outcomeRetentionMs: number;
}

/**
 * Removes outcomes nobody may ask for any more (TXD7) from this node's store, physically: partitions of concord_outcomes whose bucket
 * is older than the retention and a margin. Each node does it for itself; a repair that brings one back brings it back until the next
 * run. Answers how many rows went; bounded per run.
 */
export async function purgeOutcomes(options: PurgeOptions): Promise<number> {
  const oldestKept = BigInt(Math.floor((options.nowMs - options.outcomeRetentionMs - PURGE_MARGIN_MS) / OUTCOME_BUCKET_MS));
  const table = tableBounds();
  let from = table.from;
  let purged = 0;
  for (let partitions = 0; partitions < PURGE_PARTITIONS_MAX && purged < PURGE_ROWS_MAX; partitions += 1) {
    const [first] = await options.reader.range({ from, to: table.to, limit: 1 });
    if (first === undefined) return purged;
    const { partition } = decodeRowKey(first.key.subarray(1));
    const bucket = partition[1];
    const bounds = partitionBounds(first.key, partition);
    if (bucket?.kind === "bigint" && bucket.value < oldestKept) {
      purged += await purgePartition(options, bounds);
      from = bounds.to;
    } else {
      from = afterGroup(partition[0]!);
    }
  }
  return purged;
}

async function purgePartition(options: PurgeOptions, bounds: Bounds): Promise<number> {
  let purged = 0;
  for (;;) {
    const entries = await options.reader.range({ ...bounds, limit: PURGE_STEP_ROWS_MAX });
    if (entries.length === 0) return purged;
    await options.runner.submit(removal(entries));
    purged += entries.length;
  }
}

function removal(entries: readonly KeyValueEntry[]): StoreStep<void> {
  const load = entries.map((entry) => entry.key);
  return { load, run: () => ({ persist: load.map((key) => ({ kind: "delete", key })), reply: undefined }) };
}

interface Bounds {
  readonly from: Uint8Array;
  readonly to: Uint8Array;
}

type PartitionKey = ReturnType<typeof decodeRowKey>["partition"];

function tableBounds(): Bounds {
  const prefix = withoutEnd(storedRowKey(encodePartition(OUTCOMES_TABLE, [])));
  return { from: prefix, to: followedByLargest(prefix) };
}

function partitionBounds(from: Uint8Array, partition: PartitionKey): Bounds {
  return { from, to: followedByLargest(storedRowKey(encodePartition(OUTCOMES_TABLE, partition))) };
}

/** Buckets of a group ascend: after the first one to keep there is nothing to purge in the group. */
function afterGroup(group: PartitionKey[number]): Uint8Array {
  return followedByLargest(withoutEnd(storedRowKey(encodePartition(OUTCOMES_TABLE, [group]))));
}

/** Drops the end-of-partition byte: what is left begins every longer partition key too. */
function withoutEnd(key: Uint8Array): Uint8Array {
  return key.subarray(0, key.length - 1);
}

/** Above every key that goes on after `prefix`: tags of values are small. */
function followedByLargest(prefix: Uint8Array): Uint8Array {
  return Uint8Array.of(...prefix, 0xff);
}

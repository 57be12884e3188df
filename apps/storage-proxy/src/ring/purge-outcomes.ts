import {
  OUTCOME_BUCKET_MS,
  OUTCOMES_TABLE,
  type KeyValue,
  type KeyValueEntry,
  type KeyValueOperation,
  type StepRunner,
  type StoreStep,
} from "@concord/ports";
import { decodeRowKey, encodePartition } from "@concord/rows";
import { storedRowKey } from "@concord/quorum";
import { sleep, type Clock } from "@concord/runtime";
import { PURGE_PAUSE_MS, PURGE_STEP_ROWS_MAX } from "./limits.ts";

export interface PurgeOptions {
  readonly reader: { range: KeyValue["range"] };
  readonly runner: StepRunner;
  readonly clock: Clock;
  readonly beforeMs: number;
  /** False ends the purge before its next step. */
  readonly goesOn: () => boolean;
}

/**
 * Removes outcome rows from this node's store physically: partitions of OUTCOMES_TABLE whose bucket ended at or before `beforeMs`.
 * Answers how many rows it removed. Rests between steps, so that commits do not wait for it; removes faster than commits can be made.
 */
export async function purgeOutcomes(options: PurgeOptions): Promise<number> {
  const oldestKept = BigInt(Math.floor(options.beforeMs / OUTCOME_BUCKET_MS));
  const table = tableBounds();
  let from = table.from;
  let purged = 0;
  while (options.goesOn()) {
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

async function purgePartition({ reader, runner, clock, goesOn }: PurgeOptions, { from, to }: Bounds): Promise<number> {
  let purged = 0;
  let next = from;
  while (goesOn()) {
    const entries = await reader.range({ from: next, to, limit: PURGE_STEP_ROWS_MAX });
    const last = entries.at(-1);
    if (last === undefined) break;
    await runner.submit(removal(entries));
    purged += entries.length;
    // What is before it is gone: the store would pass over that again.
    next = Uint8Array.of(...last.key, 0);
    await sleep(clock, PURGE_PAUSE_MS);
  }
  return purged;
}

function removal(entries: readonly KeyValueEntry[]): StoreStep<void> {
  const persist = entries.map(({ key }): KeyValueOperation => ({ kind: "delete", key }));
  return { load: [], run: () => ({ persist, reply: undefined }) };
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

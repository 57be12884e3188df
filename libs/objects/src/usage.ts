import { assert } from "@concord/runtime";
import type { ObjectStore } from "./api.ts";
import type { ObjectStoreContext } from "./context.ts";
import { bucketPartition, usageKey } from "./row-keys.ts";
import { readBucket } from "./shard-view.ts";

/** The sum of the shards' counters: each is exact, and counted in the commit that changed it; between shards writers go on. */
export async function bucketUsage(context: ObjectStoreContext, bucket: string): Promise<Awaited<ReturnType<ObjectStore["bucketUsage"]>>> {
  const { row } = await readBucket(context, bucket);
  const shards = Array.from({ length: row.shards }, (_, shard) => bucketPartition(bucket, shard));
  const counters = await Promise.all(shards.map((partition) => context.metadata.readCounters(partition, usageKey())));
  for (const [objects = 0n, bytes = 0n] of counters) assert(objects >= 0n && bytes >= 0n, "OGD16: no shard has fewer objects than none");
  const sum = (at: number): bigint => counters.reduce((total, counter) => total + (counter[at] ?? 0n), 0n);
  return { objects: sum(0), bytes: sum(1) };
}

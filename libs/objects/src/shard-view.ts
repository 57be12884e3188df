import type { MetadataCondition, MetadataRow, RowVersion } from "@concord/ports";
import { assert, ConcordError } from "@concord/runtime";
import type { ObjectStoreContext } from "./context.ts";
import { decodeRowAs } from "./row-codec.ts";
import { bucketKey, bucketPartition, headerKey, shardOf, SYSTEM_PARTITION } from "./row-keys.ts";
import type { BucketRow, ShardHeader } from "./rows.ts";

export interface Versioned<Row> {
  readonly version: RowVersion;
  readonly row: Row;
}

/** Rows of one key as they were at one moment, with the header that every commit on them names. */
export interface ShardView {
  readonly bucket: string;
  readonly key: string;
  readonly partition: string;
  readonly header: Versioned<ShardHeader>;
  /** In the order of the row keys asked for. */
  readonly rows: readonly (MetadataRow | undefined)[];
}

/** The bucket is changing: being made or removed. */
const PLACEMENT_ATTEMPTS = 3;

/**
 * Reads the header of the key's shard and these rows, in one read. BUCKET_UNKNOWN. For writes the header must be open: WRITE_CONFLICT
 * while the bucket is being removed.
 */
export async function viewShard(
  context: ObjectStoreContext,
  purpose: "read" | "write",
  bucket: string,
  key: string,
  rowKeys: readonly Uint8Array[],
): Promise<ShardView> {
  let known = context.buckets.get(bucket);
  for (let attempt = 0; attempt < PLACEMENT_ATTEMPTS; attempt += 1) {
    const row = known ?? (await readBucket(context, bucket)).row;
    const partition = bucketPartition(bucket, shardOf(key, row.shards));
    const [headerRow, ...rows] = await context.metadata.read(partition, [headerKey(), ...rowKeys]);
    assert(rows.length === rowKeys.length, "a view has a place for each row that was asked for");
    const header = headerOf(headerRow);
    const placed = header !== undefined && header.row.shards === row.shards;
    // A closed header is the bucket's end, or its removal that may still be undone: its row tells.
    if (placed && header.row.state === "open") {
      if (purpose === "write") checkJudged(context, bucket, header.row.settings);
      return { bucket, key, partition, header, rows };
    }
    if (placed && known === undefined && purpose === "read") return { bucket, key, partition, header, rows };
    context.buckets.forget(bucket);
    known = undefined;
  }
  throw new ConcordError("WRITE_CONFLICT", `bucket ${bucket} is being changed; try again`);
}

/**
 * WRITE_CONFLICT: the request was judged by settings that are not those of the bucket any more (I17). Older ones in a header are of a change under
 * way: every commit names the header, so it is refused once the change is done.
 */
export function checkJudged({ judged }: ObjectStoreContext, bucket: string, settings: bigint | undefined): void {
  if (judged?.bucket === bucket && (settings ?? 0n) > judged.settings)
    throw new ConcordError("WRITE_CONFLICT", `the settings of bucket ${bucket} were changed; try again`);
}

/** What `checkJudged` let through: of the view whose header a commit names. */
export function assertJudged({ judged }: ObjectStoreContext, { bucket, header }: ShardView): void {
  const isJudged = judged?.bucket !== bucket || (header.row.settings ?? 0n) <= judged.settings;
  assert(isJudged, "I17: no write commits under settings newer than those it was judged by");
}

/** BUCKET_UNKNOWN when there is none that users know of. */
export async function readBucket(context: ObjectStoreContext, name: string): Promise<Versioned<BucketRow>> {
  const [found] = await context.metadata.read(SYSTEM_PARTITION, [bucketKey(name)]);
  const bucket = found === undefined ? undefined : { version: found.version, row: decodeRowAs("bucket", found.value) };
  if (bucket === undefined || bucket.row.state === "removed" || bucket.row.state === "making") {
    context.buckets.forget(name);
    throw new ConcordError("BUCKET_UNKNOWN", `there is no bucket ${name}`, { metadata: { bucket: name } });
  }
  context.buckets.remember(bucket.row);
  return bucket;
}

export function headerOf(row: MetadataRow | undefined): Versioned<ShardHeader> | undefined {
  return row === undefined ? undefined : { version: row.version, row: decodeRowAs("header", row.value) };
}

/** That the shard is as it was seen: open, and no fence was raised since (OGD2, OGD17). */
export function headerCondition(view: ShardView): MetadataCondition {
  return { key: headerKey(), version: view.header.version };
}

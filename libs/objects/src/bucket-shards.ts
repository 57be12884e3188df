import { sameVersion } from "@concord/ports";
import { assert, ConcordError } from "@concord/runtime";
import { findBucket } from "./bucket-row.ts";
import { commitRepeatable } from "./commit-rows.ts";
import { nextVersion, putRow } from "./row-writes.ts";
import type { ObjectStoreContext } from "./context.ts";
import { shardEventsOf } from "./events/rules.ts";
import { writesOfEnd } from "./multipart/abort-upload.ts";
import { isStale } from "./multipart/upload-view.ts";
import { assertAnswered, assertForward } from "./page-invariants.ts";
import { decodeRowAs } from "./row-codec.ts";
import { afterKey, bucketPartition, contentSpan, headerKey, headSpan, uploadOfKey, uploadSpan } from "./row-keys.ts";
import type { BucketRow, ShardHeader } from "./rows.ts";
import { headerOf, type Versioned } from "./shard-view.ts";

/**
 * Only the owner of the bucket's row, whose version is the token, changes the headers: the owner reads the headers, then sees that the row is
 * still its own, then writes every header anew (I8). An owner that was overtaken between holds versions that its successor has replaced, so
 * nothing it still sends can apply.
 */
type Headers = readonly (Versioned<ShardHeader> | undefined)[];

const EMPTY_PAGE_ROWS = 100;

/** All headers open, and as the bucket's row says. False: overtaken. */
export async function openShards(context: ObjectStoreContext, mine: Versioned<BucketRow>): Promise<boolean> {
  assert(mine.row.state === "making" || mine.row.state === "changing", "I8: headers are opened by the owner of the bucket's row");
  return (await writeHeaders(context, mine, "open")) !== undefined;
}

/**
 * Closes all shards and looks whether they are empty; opens them again if not (OGD17). Uploads that are open do not keep a bucket, as in S3: they
 * end here, once no object can come in any more, so that a removal that is refused has ended none.
 */
export async function removeShards(context: ObjectStoreContext, mine: Versioned<BucketRow>): Promise<"empty" | "not-empty" | "overtaken"> {
  assert(mine.row.state === "removing", "I8: headers are closed by the owner of the bucket's row");
  const closed = await writeHeaders(context, mine, "closed");
  if (closed === undefined) return "overtaken";
  const isClosed = closed.every((header) => header?.row.state === "closed");
  assert(isClosed, "OGD17: a bucket is empty when nothing comes in any more");
  context.failpoint("bucket:after-close");
  const content = (await hasObjects(context, mine.row)) ? "not-empty" : await endUploads(context, mine.row, closed);
  if (content !== "not-empty") return content;
  return (await changeHeaders(context, mine.row, closed, "open")) === undefined ? "overtaken" : "not-empty";
}

/** Removes the headers of a removed bucket when nothing is left, not even garbage. False: something is, or another request took over. */
export async function dropShards(context: ObjectStoreContext, removed: Versioned<BucketRow>): Promise<boolean> {
  const partitions = partitionsOf(removed.row);
  const headers = await Promise.all(partitions.map(async (partition) => await readHeader(context, partition)));
  for (const partition of partitions) {
    const left = await context.metadata.range(partition, { ...contentSpan(), limit: 1 });
    if (left.length > 0) return false;
  }
  const owner = await findBucket(context, removed.row.name);
  if (!sameVersion(owner?.version, removed.version)) return false;
  for (const [shard, partition] of partitions.entries()) {
    const header = headers[shard];
    if (header === undefined) continue;
    assert(header.row.state === "closed", "OGD17: a bucket that is forgotten was closed");
    const conditions = [{ key: headerKey(), version: header.version }];
    const outcome = await commitRepeatable(context, { partition, conditions, writes: [{ kind: "delete", key: headerKey() }] });
    if (outcome.kind !== "committed") return false;
  }
  return true;
}

async function writeHeaders(
  context: ObjectStoreContext,
  mine: Versioned<BucketRow>,
  state: ShardHeader["state"],
): Promise<Headers | undefined> {
  for (let attempt = 1; attempt <= context.limits.commitAttemptsMax; attempt += 1) {
    const headers = await Promise.all(partitionsOf(mine.row).map(async (partition) => await readHeader(context, partition)));
    const owner = await findBucket(context, mine.row.name);
    if (!sameVersion(owner?.version, mine.version)) return undefined;
    const written = await changeHeaders(context, mine.row, headers, state);
    // A fence may have raised one meanwhile (I3): again.
    if (written !== undefined) return written;
  }
  throw new ConcordError("WRITE_CONFLICT", "too many others change this bucket");
}

/** Every header in place of exactly the one that was read; undefined: one of them was another by then. */
async function changeHeaders(
  context: ObjectStoreContext,
  bucket: BucketRow,
  headers: Headers,
  state: ShardHeader["state"],
): Promise<Headers | undefined> {
  const guid = await context.guids.next();
  const { shards, versioning, settings, locking } = bucket;
  assert(headers.length === shards, "I8: each shard's header is written as it was read");
  const events = shardEventsOf(bucket);
  const row: ShardHeader = {
    kind: "header",
    state,
    shards,
    ...(versioning === undefined ? {} : { versioning }),
    ...(settings === undefined ? {} : { settings: settings.number }),
    ...(events === undefined ? {} : { events }),
    ...(locking === undefined ? {} : { locking }),
  };
  const written = await Promise.all(
    partitionsOf(bucket).map(async (partition, shard) => {
      assertHeader(bucket, headers[shard]?.row, row);
      return await changeHeader(context, partition, headers[shard], guid, row);
    }),
  );
  return written.includes(undefined) ? undefined : written;
}

/** What a write may rely on that sees the header. */
function assertHeader({ state }: BucketRow, before: ShardHeader | undefined, row: ShardHeader): void {
  assert(row.locking === undefined || row.versioning === "enabled", "OGD21: a shard with locks keeps versions");
  if (before === undefined) return;
  assert((row.settings ?? 0n) >= (before.settings ?? 0n), "I17: the settings that a header names never go back");
  // What a making left that broke off may be of another one.
  if (state === "making") return;
  assert(before.versioning === undefined || row.versioning !== undefined, "I16: a shard that keeps versions goes on to");
  assert(before.locking === undefined || row.locking !== undefined, "OGD21: a shard whose versions can be locked goes on so");
}

async function changeHeader(
  context: ObjectStoreContext,
  partition: string,
  found: Versioned<ShardHeader> | undefined,
  guid: bigint,
  row: ShardHeader,
): Promise<Versioned<ShardHeader> | undefined> {
  const version = nextVersion(found?.version, context.clock, guid);
  const outcome = await commitRepeatable(context, {
    partition,
    conditions: [{ key: headerKey(), version: found?.version }],
    writes: [putRow(headerKey(), version, row)],
  });
  if (outcome.kind === "unknown") {
    throw new ConcordError("OUTCOME_UNKNOWN", "the store does not say whether the bucket was changed", { cause: outcome.cause });
  }
  const done = outcome.kind === "committed" || sameVersion(outcome.rows[0]?.version, version);
  return done ? { version, row } : undefined;
}

async function readHeader(context: ObjectStoreContext, partition: string): Promise<Versioned<ShardHeader> | undefined> {
  const keys = [headerKey()];
  const rows = await context.metadata.read(partition, keys);
  assertAnswered(rows, keys);
  return headerOf(rows[0]);
}

/** Objects, or versions (a key that has some has a head, I16). Garbage and remembered completions outlive the bucket. */
async function hasObjects(context: ObjectStoreContext, bucket: BucketRow): Promise<boolean> {
  const { from, to } = headSpan();
  for (const partition of partitionsOf(bucket)) {
    const heads = await context.metadata.range(partition, { from, to, limit: 1 });
    if (heads.length > 0) return true;
  }
  return false;
}

/** Ends the uploads of closed shards. "not-empty": a client is completing one; "overtaken": another owner has the headers. */
async function endUploads(context: ObjectStoreContext, bucket: BucketRow, closed: Headers): Promise<"empty" | "not-empty" | "overtaken"> {
  for (const [shard, partition] of partitionsOf(bucket).entries()) {
    let { from } = uploadSpan();
    for (let isMore = true; isMore;) {
      const rows = await context.metadata.range(partition, { from, to: uploadSpan().to, limit: EMPTY_PAGE_ROWS });
      const uploads = rows.map((row) => ({ key: row.key, version: row.version, row: decodeRowAs("upload", row.value) }));
      if (uploads.some(({ row: { state } }) => state.kind === "completing" && !isStale(context, state))) return "not-empty";
      for (const { key, version, row } of uploads) {
        if (row.state.kind === "done") continue;
        const conditions = [
          { key: headerKey(), version: closed[shard]!.version },
          { key, version },
        ];
        const writes = await writesOfEnd(context, { bucket: bucket.name, ...uploadOfKey(key) });
        const outcome = await commitRepeatable(context, { partition, conditions, writes });
        if (outcome.kind === "unknown") {
          throw new ConcordError("OUTCOME_UNKNOWN", "the store does not say whether an upload was ended", { cause: outcome.cause });
        }
        if (outcome.kind !== "committed" && outcome.rows[1] !== undefined) return "overtaken";
        context.failpoint("bucket:upload-ended");
      }
      isMore = rows.length === EMPTY_PAGE_ROWS;
      if (isMore) from = assertForward(from, afterKey(rows.at(-1)!.key));
    }
  }
  return "empty";
}

function partitionsOf(bucket: BucketRow): readonly string[] {
  return Array.from({ length: bucket.shards }, (_, shard) => bucketPartition(bucket.name, shard));
}

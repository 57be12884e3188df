// One page of a lifecycle pass: heads with the versions behind them, then open uploads, of one shard of one bucket.
import type { MetadataRow } from "@concord/ports";
import { assert, toConcordError } from "@concord/runtime";
import { findBucket } from "../bucket-row.ts";
import { isKnown } from "../buckets.ts";
import type { ObjectStoreContext } from "../context.ts";
import { deleteObject } from "../delete-object.ts";
import { versionOf, type VersionRow } from "../head-row.ts";
import { isKept } from "../locks.ts";
import { abortUpload } from "../multipart/abort-upload.ts";
import { assertForward, assertOnward } from "../page-invariants.ts";
import { decodeRow, decodeRowAs } from "../row-codec.ts";
import {
  afterKey,
  bucketKey,
  bucketPartition,
  bucketSpan,
  headSpan,
  keyOfHead,
  SYSTEM_PARTITION,
  uploadOfKey,
  uploadSpan,
} from "../row-keys.ts";
import type { BucketRow, LifecycleCounts, LifecyclePlace } from "../rows.ts";
import type { Versioned } from "../shard-view.ts";
import { nameOf, versionIdOf } from "../versions.ts";
import { HeadChanged, olderVersions } from "./key-versions.ts";
import { LIFECYCLE_AT_ONCE, LIFECYCLE_PAGE, LIFECYCLE_REMOVAL_ROWS, LIFECYCLE_VERSIONS_TRIES } from "./limits.ts";
import { abortOf, expiryOf, lifecycleRulesOf, needsVersions, type Expiry, type JudgedVersion, type LifecycleRule } from "./rules.ts";

export type RowsPlace = Extract<LifecyclePlace, { readonly kind: "rows" }>;

export interface LifecyclePage {
  /** Undefined: nothing comes after it. */
  readonly next: RowsPlace | undefined;
  readonly counts: LifecycleCounts;
}

export interface LifecyclePageOptions {
  /** What is due by then expires. */
  readonly nowMs: number;
  readonly dayMs: number;
  /** Paces the pass: called with rows that were read, resolves when the pass may go on; rejects when it must stop. */
  readonly meter: (rows: number) => Promise<void>;
}

export const NOTHING_EXPIRED: LifecycleCounts = {
  looked: 0,
  current: 0,
  nonCurrent: 0,
  markers: 0,
  bytes: 0,
  uploads: 0,
  overtaken: 0,
  kept: 0,
};

export const FIRST_ROWS: RowsPlace = { kind: "rows", bucket: "", shard: 0, from: headSpan().from };

/** A page while it is worked on. */
interface Work extends LifecyclePageOptions {
  /** Its deletes are refused when the bucket got newer settings than the rules are of (I17). */
  readonly context: ObjectStoreContext;
  readonly bucket: BucketRow;
  readonly partition: string;
  readonly rules: readonly LifecycleRule[];
  readonly counts: { -readonly [Name in keyof LifecycleCounts]: number };
}

/** Each removal is a commit on exactly the row that was judged, by the rules that are in force when it commits. */
export async function lifecyclePage(context: ObjectStoreContext, place: RowsPlace, options: LifecyclePageOptions): Promise<LifecyclePage> {
  const page = await pageAt(context, place, options);
  assertOnward(place, page.next);
  return page;
}

async function pageAt(context: ObjectStoreContext, place: RowsPlace, options: LifecyclePageOptions): Promise<LifecyclePage> {
  const { bucket: name, shard, from } = place;
  const found = name === "" ? undefined : await findBucket(context, name);
  const rules = found === undefined || !isKnown(found.row) ? [] : lifecycleRulesOf(found.row.settings);
  if (found === undefined || rules.length === 0 || shard >= found.row.shards)
    return { next: await bucketBehind(context, name), counts: NOTHING_EXPIRED };
  const judged = { bucket: name, settings: found.row.settings?.number ?? 0n };
  const counts = { ...NOTHING_EXPIRED };
  const partition = bucketPartition(name, shard);
  const work: Work = { ...options, context: { ...context, judged }, bucket: found.row, partition, rules, counts };
  const isOfHeads = from[0] === headSpan().from[0];
  const { to } = isOfHeads ? headSpan() : uploadSpan();
  const onUnreadable = (): void => void (counts.kept += 1);
  const rows = await context.metadata.range(partition, { from, to, limit: LIFECYCLE_PAGE, onUnreadable });
  await options.meter(rows.length);
  counts.looked += rows.length;
  await eachOf(rows, (row) => keepGoing(work, () => (isOfHeads ? expireKey(work, row) : abortIfDue(work, row))));
  return { next: behind(place, rows, isOfHeads), counts };
}

function behind(place: RowsPlace, rows: readonly MetadataRow[], isOfHeads: boolean): RowsPlace {
  if (rows.length === LIFECYCLE_PAGE) return { ...place, from: afterKey(rows.at(-1)!.key) };
  if (isOfHeads) return { ...place, from: uploadSpan().from };
  return { ...FIRST_ROWS, bucket: place.bucket, shard: place.shard + 1 };
}

/** The next bucket that has rules in force. */
export async function bucketBehind({ metadata }: ObjectStoreContext, name: string): Promise<RowsPlace | undefined> {
  const span = bucketSpan();
  let from = name === "" ? span.from : afterKey(bucketKey(name));
  for (;;) {
    const rows = await metadata.range(SYSTEM_PARTITION, { from, to: span.to, limit: LIFECYCLE_PAGE });
    for (const { value } of rows) {
      const row = decodeRowAs("bucket", value);
      if (isKnown(row) && lifecycleRulesOf(row.settings).length > 0) return { ...FIRST_ROWS, bucket: row.name };
    }
    if (rows.length < LIFECYCLE_PAGE) return undefined;
    from = assertForward(from, afterKey(rows.at(-1)!.key));
  }
}

async function eachOf<Item>(items: readonly Item[], act: (item: Item) => Promise<void>): Promise<void> {
  for (let at = 0; at < items.length; at += LIFECYCLE_AT_ONCE) await Promise.all(items.slice(at, at + LIFECYCLE_AT_ONCE).map(act));
}

/** What cannot be removed now stays for the next pass, and does not keep others. */
async function keepGoing({ context, counts, bucket }: Work, act: () => Promise<void>): Promise<void> {
  try {
    await act();
  } catch (thrown) {
    const { code, message } = toConcordError(thrown);
    if (code === "CANCELLED") throw thrown;
    if (thrown instanceof HeadChanged || OVERTAKEN.has(code)) {
      counts.overtaken += 1;
      return;
    }
    counts.kept += 1;
    context.log.warn("a lifecycle rule could not be carried out; the next pass tries again", {
      bucket: bucket.name,
      code,
      reason: message,
    });
  }
}

/** Another request was faster, or the rules or the bucket are others by now. */
const OVERTAKEN: ReadonlySet<string> = new Set([
  "PRECONDITION_FAILED",
  "WRITE_CONFLICT",
  "OBJECT_UNKNOWN",
  "BUCKET_UNKNOWN",
  "UPLOAD_UNKNOWN",
  "UPLOAD_STATE",
]);

/** Versions that are not current first: what becomes of the head changes what is behind it. */
async function expireKey(work: Work, headRow: MetadataRow): Promise<void> {
  const key = keyOfHead(headRow.key);
  let head: Versioned<VersionRow> = versionOf(headRow);
  const isMarker = head.row.kind === "marker";
  let isOnly = work.bucket.versioning === undefined;
  if (!isOnly && needsVersions(work.rules, key, isMarker)) {
    for (let attempt = 1; ; attempt += 1) {
      try {
        isOnly = (await expireOlder(work, key, head)) === 0;
        break;
      } catch (thrown) {
        if (!(thrown instanceof HeadChanged) || attempt === LIFECYCLE_VERSIONS_TRIES) throw thrown;
        const [row] = await work.context.metadata.read(work.partition, [headRow.key]);
        if (row === undefined) return;
        head = versionOf(row);
      }
    }
  }
  await expireIfDue(work, { key, found: head, place: { kind: "current", isOnly } });
}

/** How many there were. */
async function expireOlder(work: Work, key: string, head: Versioned<VersionRow>): Promise<number> {
  let seen = 0;
  for await (const { found, successor, newer } of olderVersions(work.context, work.partition, key, head)) {
    seen += 1;
    await work.meter(1);
    const sinceMs = successor.row.modifiedMs;
    await keepGoing(work, () => expireIfDue(work, { key, found, place: { kind: "non-current", sinceMs, newer } }));
  }
  return seen;
}

async function expireIfDue(
  work: Work,
  { key, found, place }: { readonly key: string; readonly found: Versioned<VersionRow>; readonly place: JudgedVersion["place"] },
): Promise<void> {
  const { context, bucket, rules, nowMs, dayMs, counts } = work;
  const { row, version } = found;
  const object = row.kind === "object" ? { sizeBytes: row.sizeBytes, tags: row.attributes.tags } : undefined;
  const expiry = expiryOf(rules, { key, modifiedMs: row.modifiedMs, object, place }, dayMs);
  if (expiry === undefined || expiry.dueMs > nowMs) return;
  const isCurrent = place.kind === "current";
  // A current object of a bucket that keeps versions gets a delete marker; all else is removed for good.
  const versionId = isCurrent && object !== undefined ? undefined : versionIdOf(nameOf(found));
  // Whether it is kept is decided again by the row that the removal names: here it only spares the pass what it would not get.
  if (versionId !== undefined && (await isLocked(context, row))) {
    context.metrics.count("objects_lifecycle_locked_total");
    return;
  }
  await work.meter(LIFECYCLE_REMOVAL_ROWS);
  const exactly = { version, isCurrent };
  context.failpoint("lifecycle:before-removal");
  assertDue(expiry, nowMs);
  await deleteObject(context, { bucket: bucket.name, key, versionId, exactly });
  context.failpoint("lifecycle:after-removal");
  if (object === undefined) counts.markers += 1;
  else if (isCurrent) counts.current += 1;
  else counts.nonCurrent += 1;
  if (versionId !== undefined || bucket.versioning === undefined) counts.bytes += object?.sizeBytes ?? 0;
}

/** Before anything goes: what a rule removed is not brought back. */
function assertDue({ dueMs }: Expiry, nowMs: number): void {
  assert(dueMs <= nowMs, "OGD18: nothing expires before it is due");
}

async function isLocked({ lockTime }: ObjectStoreContext, row: VersionRow): Promise<boolean> {
  if (row.kind !== "object" || row.lock === undefined) return false;
  return isKept(row.lock, await lockTime.judgeMs(), undefined);
}

/** Loses to a complete (OGD11). */
async function abortIfDue(work: Work, row: MetadataRow): Promise<void> {
  const { context, bucket, rules, nowMs, dayMs, counts } = work;
  const { key, uploadId } = uploadOfKey(row.key);
  const upload = decodeRow(row.value);
  if (upload.kind !== "upload" || upload.state.kind === "done") return;
  const expiry = abortOf(rules, { key, initiatedMs: upload.initiatedMs }, dayMs);
  if (expiry === undefined || expiry.dueMs > nowMs) return;
  await work.meter(LIFECYCLE_REMOVAL_ROWS);
  assertDue(expiry, nowMs);
  await abortUpload(context, { bucket: bucket.name, key, uploadId });
  counts.uploads += 1;
}

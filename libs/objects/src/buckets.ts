import { sameVersion } from "@concord/ports";
import { assert, backoff, ConcordError, type Backoff } from "@concord/runtime";
import type { BucketInfo } from "./api.ts";
import { openShards, dropShards, removeShards } from "./bucket-shards.ts";
import { commitBucket, findBucket, scanBuckets } from "./bucket-row.ts";
import { commitRepeatable } from "./commit-rows.ts";
import type { ObjectStoreContext } from "./context.ts";
import { EVENTS_DOCUMENT } from "./events/rules.ts";
import { BUCKET_PATIENCE, BUCKET_PATIENCE_TOTAL_MS } from "./limits.ts";
import { checkBucketName, checkTags } from "./names.ts";
import { bucketKey, SYSTEM_PARTITION } from "./row-keys.ts";
import type { BucketLocking, BucketRow, BucketSettings, Versioning } from "./rows.ts";
import { checkJudged, readBucket, type Versioned } from "./shard-view.ts";

const NO_SETTINGS: BucketSettings = { number: 0n, documents: {} };

export interface NewBucket {
  readonly bucket: string;
  readonly tenant: string;
  readonly region: string;
  readonly documents?: BucketSettings["documents"] | undefined;
  /** It keeps versions, which can be locked. */
  readonly withLocks?: boolean | undefined;
}

/**
 * Makes a bucket, in steps that the next caller can finish: its row (making), its headers (open), its row (open). The same tenant's
 * bucket is there already: fine (S3), unless other settings are asked for. BUCKET_EXISTS: that, or it is another tenant's.
 */
export async function createBucket(context: ObjectStoreContext, request: NewBucket): Promise<void> {
  checkBucketName(request.bucket);
  await context.turns.run(request.bucket, () => createInTurn(context, request), context.signal);
}

async function createInTurn(context: ObjectStoreContext, request: NewBucket): Promise<void> {
  const patience = patienceOf(context);
  for (let attempt = 1; attempt <= context.limits.commitAttemptsMax; attempt += 1) {
    const found = await findBucket(context, request.bucket);
    if (found !== undefined && found.row.state !== "changing" && !(await isStill(context, found, patience))) continue;
    switch (found?.row.state) {
      case "open":
      case "changing":
        if (found.row.tenant === request.tenant) {
          checkSameSettings(found.row, request);
          return;
        }
        throw new ConcordError("BUCKET_EXISTS", "the name belongs to another source", { metadata: { bucket: request.bucket } });
      case "removing":
        // A removal that runs or broke off: finish or undo it, then look again.
        await removeBucket(context, found);
        break;
      case "making":
      case "removed":
      case undefined:
        if (await makeBucket(context, request, found)) return;
        break;
    }
  }
  throw new ConcordError("WRITE_CONFLICT", "too many others change this bucket");
}

function checkSameSettings({ settings = NO_SETTINGS, locking }: BucketRow, { bucket, documents = {}, withLocks }: NewBucket): void {
  const isLockable = withLocks !== true || locking !== undefined;
  if (isLockable && Object.entries(documents).every(([name, text]) => settings.documents[name] === text)) return;
  throw new ConcordError("BUCKET_EXISTS", "the bucket is there, with other settings", { metadata: { bucket, field: "own" } });
}

/** BUCKET_UNKNOWN, also for one that is being made. */
export async function headBucket(context: ObjectStoreContext, bucket: string): Promise<BucketInfo> {
  return infoOf((await readBucket(context, bucket)).row);
}

/** A tenant's buckets by name. */
export async function listBuckets(context: ObjectStoreContext, tenant: string): Promise<readonly BucketInfo[]> {
  const buckets: BucketInfo[] = [];
  for await (const { row } of scanBuckets(context)) {
    if (row.tenant !== tenant || !isKnown(row)) continue;
    assert(buckets.length === 0 || buckets.at(-1)!.name < row.name, "buckets are listed by name, each once");
    buckets.push(infoOf(row));
  }
  return buckets;
}

/** BUCKET_UNKNOWN, BUCKET_NOT_EMPTY (objects, versions, or an upload that is being completed), WRITE_CONFLICT. */
export async function deleteBucket(context: ObjectStoreContext, bucket: string): Promise<void> {
  await readBucket(context, bucket);
  await context.turns.run(bucket, () => deleteInTurn(context, bucket), context.signal);
}

async function deleteInTurn(context: ObjectStoreContext, bucket: string): Promise<void> {
  const patience = patienceOf(context);
  for (let attempt = 1; attempt <= context.limits.commitAttemptsMax; attempt += 1) {
    const found = await findBucket(context, bucket);
    // Another request finished the removal meanwhile.
    if (found === undefined || found.row.state === "removed" || found.row.state === "making") return;
    checkJudged(context, bucket, found.row.settings?.number);
    if (!(await isStill(context, found, patience))) continue;
    switch (await removeBucket(context, found)) {
      case "removed":
        return;
      case "not-empty":
        throw new ConcordError("BUCKET_NOT_EMPTY", "the bucket has objects, versions of objects or an upload that is being completed", {
          metadata: { bucket },
        });
      case "overtaken":
        break;
    }
  }
  throw new ConcordError("WRITE_CONFLICT", "too many others change this bucket");
}

export async function bucketTags(context: ObjectStoreContext, bucket: string): Promise<Readonly<Record<string, string>>> {
  return (await readBucket(context, bucket)).row.tags;
}

export async function setBucketTags(context: ObjectStoreContext, bucket: string, tags: Readonly<Record<string, string>>): Promise<void> {
  checkTags("bucket", tags);
  for (let attempt = 1; attempt <= context.limits.commitAttemptsMax; attempt += 1) {
    const found = await readBucket(context, bucket);
    // A removal that runs owns the row: another version would take it over.
    if (found.row.state !== "open") break;
    checkJudged(context, bucket, found.row.settings?.number);
    if ((await commitBucket(context, found, { ...found.row, tags })) !== undefined) return;
  }
  throw new ConcordError("WRITE_CONFLICT", "others change this bucket; try again");
}

/** Absent: it never kept versions. A change that broke off is finished first: until then shards differ. */
export async function bucketVersioning(context: ObjectStoreContext, bucket: string): Promise<Versioning | undefined> {
  const { row } = await readBucket(context, bucket);
  return row.state === "changing" ? context.turns.run(bucket, () => versioningInTurn(context, bucket), context.signal) : row.versioning;
}

async function versioningInTurn(context: ObjectStoreContext, bucket: string): Promise<Versioning | undefined> {
  const patience = patienceOf(context);
  for (let attempt = 1; attempt <= context.limits.commitAttemptsMax; attempt += 1) {
    const found = await readBucket(context, bucket);
    if (found.row.state !== "changing") return found.row.versioning;
    if (await isStill(context, found, patience)) await changeBucket(context, found, found.row);
  }
  throw new ConcordError("WRITE_CONFLICT", "others change this bucket; try again");
}

/**
 * Every header is written anew, so a put that saw the bucket otherwise conflicts and looks again: none that saw "off" removes the only
 * version after this resolved. A bucket that has versions keeps them: it is suspended, never off again.
 */
export function setBucketVersioning(context: ObjectStoreContext, bucket: string, versioning: Versioning): Promise<void> {
  return context.turns.run(bucket, () => setVersioningInTurn(context, bucket, versioning), context.signal);
}

async function setVersioningInTurn(context: ObjectStoreContext, bucket: string, versioning: Versioning): Promise<void> {
  const patience = patienceOf(context);
  for (let attempt = 1; attempt <= context.limits.commitAttemptsMax; attempt += 1) {
    const found = await readBucket(context, bucket);
    if (found.row.state === "removing") break;
    checkJudged(context, bucket, found.row.settings?.number);
    if (found.row.state === "open" && found.row.versioning === versioning) return;
    if (found.row.locking !== undefined && versioning !== "enabled") throw bucketState(KEEPS_VERSIONS);
    if (!(await isStill(context, found, patience))) continue;
    if (await changeBucket(context, found, { ...found.row, versioning })) return;
  }
  throw new ConcordError("WRITE_CONFLICT", "others change this bucket; try again");
}

const KEEPS_VERSIONS = "An Object Lock configuration is present on this bucket, so the versioning state cannot be changed.";
const NEEDS_VERSIONS = "Versioning must be 'Enabled' on the bucket to apply a Object Lock configuration";

const bucketState = (message: string): ConcordError =>
  new ConcordError("MALFORMED_REQUEST", message, { metadata: { field: "bucket-state" } });

export async function bucketLocking(context: ObjectStoreContext, bucket: string): Promise<BucketLocking | undefined> {
  return (await readBucket(context, bucket)).row.locking;
}

/**
 * Versions of the bucket can be locked from now on, for ever; new objects get the default. Every header is written anew, so a put that saw another default
 * conflicts, looks again and gets this one.
 */
export function setBucketLocking(context: ObjectStoreContext, bucket: string, locking: BucketLocking): Promise<void> {
  return context.turns.run(bucket, () => setLockingInTurn(context, bucket, locking), context.signal);
}

async function setLockingInTurn(context: ObjectStoreContext, bucket: string, locking: BucketLocking): Promise<void> {
  const patience = patienceOf(context);
  for (let attempt = 1; attempt <= context.limits.commitAttemptsMax; attempt += 1) {
    const found = await readBucket(context, bucket);
    if (found.row.state === "removing") break;
    checkJudged(context, bucket, found.row.settings?.number);
    if (found.row.versioning !== "enabled") throw bucketState(NEEDS_VERSIONS);
    if (!(await isStill(context, found, patience))) continue;
    await context.lockTime.establish();
    if (await changeBucket(context, found, { ...found.row, locking })) return;
  }
  throw new ConcordError("WRITE_CONFLICT", "others change this bucket; try again");
}

/**
 * One document of the bucket's settings, or its removal. In effect for every write that commits after it resolved: those that were judged by
 * the settings before are refused from then on (I17). WRITE_CONFLICT: another request changes the bucket.
 */
export function setBucketDocument(context: ObjectStoreContext, change: DocumentChange): Promise<void> {
  return context.turns.run(change.bucket, () => setDocumentInTurn(context, change), context.signal);
}

export interface DocumentChange {
  readonly bucket: string;
  readonly name: string;
  readonly text: string | undefined;
}

async function setDocumentInTurn(context: ObjectStoreContext, { bucket, name, text }: DocumentChange): Promise<void> {
  const patience = patienceOf(context);
  for (let attempt = 1; attempt <= context.limits.commitAttemptsMax; attempt += 1) {
    const found = await readBucket(context, bucket);
    const { state, settings } = found.row;
    if (state === "removing") break;
    checkJudged(context, bucket, settings?.number);
    const documents = settings?.documents ?? {};
    if (state === "open" && documents[name] === text) return;
    if (!(await isStill(context, found, patience))) continue;
    const { [name]: _, ...others } = documents;
    const number = (settings?.number ?? 0n) + 1n;
    const changed = { number, documents: text === undefined ? others : { ...others, [name]: text } };
    if (await changeBucket(context, found, { ...found.row, settings: changed })) return;
  }
  throw new ConcordError("WRITE_CONFLICT", "others change this bucket; try again");
}

/** Buckets that users know. */
export const isKnown = ({ state }: BucketRow): boolean => state === "open" || state === "changing" || state === "removing";

/** At start: buckets whose making, change or removal broke off are finished, or undone. */
export async function resolveBuckets(context: ObjectStoreContext): Promise<number> {
  let resolved = 0;
  for await (const found of scanBuckets(context)) {
    if (!isUnresolved(found.row)) continue;
    await resolveBucket(context, found);
    resolved += 1;
  }
  return resolved;
}

/** Such a bucket waits for its making, change or removal to be finished or undone. */
export function isUnresolved({ state }: BucketRow): boolean {
  return state === "making" || state === "changing" || state === "removing";
}

/** Of one request, with what others are doing to its bucket. */
interface Patience {
  readonly pauses: Backoff;
  readonly deadlineAtMs: number;
}

function patienceOf({ clock }: ObjectStoreContext): Patience {
  return { pauses: backoff(clock, BUCKET_PATIENCE), deadlineAtMs: clock.monotonicMs() + BUCKET_PATIENCE_TOTAL_MS };
}

/**
 * True: nothing of the bucket is in the making, or what was begun made no step during a pause, and is taken over. Requests that take over from
 * each other at once would never end; each pause is longer than the one before. WRITE_CONFLICT when there were enough of them.
 */
async function isStill(context: ObjectStoreContext, { row, version }: Versioned<BucketRow>, patience: Patience): Promise<boolean> {
  if (!isUnresolved(row)) return true;
  const { pauses, deadlineAtMs } = patience;
  if (!(await pauses.pause({ deadlineAtMs }))) throw new ConcordError("WRITE_CONFLICT", "others change this bucket; try again");
  return sameVersion((await findBucket(context, row.name))?.version, version);
}

/** Continues a making, a change or a removal; the request that began it finds itself overtaken (I8). */
export async function resolveBucket(context: ObjectStoreContext, found: Versioned<BucketRow>): Promise<void> {
  assert(isUnresolved(found.row), "I8: what rests is not taken over");
  const { name: bucket, tenant, region, state, settings, locking } = found.row;
  const withLocks = locking !== undefined;
  if (state === "making") await makeBucket(context, { bucket, tenant, region, documents: settings?.documents, withLocks }, found);
  if (state === "changing") await changeBucket(context, found, found.row);
  if (state === "removing") await removeBucket(context, found);
}

/** For garbage collection: the row of a removed bucket goes when nothing is left of it. True: it went. */
export async function forgetBucket(context: ObjectStoreContext, found: Versioned<BucketRow>): Promise<boolean> {
  assert(found.row.state === "removed", "only a removed bucket is forgotten");
  if (!(await dropShards(context, found))) return false;
  const key = bucketKey(found.row.name);
  const outcome = await commitRepeatable(context, {
    partition: SYSTEM_PARTITION,
    conditions: [{ key, version: found.version }],
    writes: [{ kind: "delete", key }],
  });
  return outcome.kind === "committed";
}

/** False: another request was faster. */
async function makeBucket(
  context: ObjectStoreContext,
  { bucket, tenant, region, documents = {}, withLocks = false }: NewBucket,
  found: Versioned<BucketRow> | undefined,
): Promise<boolean> {
  // Rows of a removed bucket may still be garbage in its old shards: the number stays until they are gone.
  const shards = found?.row.shards ?? context.shards;
  const createdMs = context.clock.nowMs();
  if (withLocks) await context.lockTime.establish();
  const row: BucketRow = {
    kind: "bucket",
    name: bucket,
    tenant,
    region,
    createdMs,
    shards,
    state: "making",
    tags: {},
    ...settingsAfter(found?.row, tenant, documents),
    ...(withLocks ? { versioning: "enabled", locking: {} } : {}),
  };
  const mine = await commitBucket(context, found, row);
  context.failpoint("bucket:after-making");
  if (mine === undefined) return false;
  if (!(await openShards(context, mine))) return false;
  context.failpoint("bucket:after-headers");
  return (await commitBucket(context, mine, { ...row, state: "open" })) !== undefined;
}

/** A bucket made again has a number of settings that a write which was judged by those of its former owner does not know (I17). */
function settingsAfter(former: BucketRow | undefined, tenant: string, documents: BucketSettings["documents"]): Pick<BucketRow, "settings"> {
  // Events of the former bucket may still wait: who looks for them goes by this document.
  const had = former?.settings?.documents[EVENTS_DOCUMENT] === undefined ? {} : { [EVENTS_DOCUMENT]: "[]" };
  const isPlain = former === undefined || (former.settings === undefined && former.tenant === tenant);
  if (isPlain && Object.keys(documents).length === 0) return {};
  return { settings: { number: (former?.settings?.number ?? 0n) + 1n, documents: { ...had, ...documents } } };
}

/** `row` in place of the one that was found, and every header as it says. False: another request was faster. */
async function changeBucket(context: ObjectStoreContext, found: Versioned<BucketRow>, row: BucketRow): Promise<boolean> {
  const mine = await commitBucket(context, found, { ...row, state: "changing" });
  context.failpoint("bucket:after-changing");
  if (mine === undefined) return false;
  if (!(await openShards(context, mine))) return false;
  context.failpoint("bucket:after-changed-headers");
  return (await commitBucket(context, mine, { ...mine.row, state: "open" })) !== undefined;
}

/** `overtaken`: another request continues it, or it is over. */
async function removeBucket(context: ObjectStoreContext, found: Versioned<BucketRow>): Promise<"removed" | "not-empty" | "overtaken"> {
  const mine = await commitBucket(context, found, { ...found.row, state: "removing" });
  context.failpoint("bucket:after-removing");
  if (mine === undefined) return "overtaken";
  const outcome = await removeShards(context, mine);
  context.failpoint("bucket:after-shards");
  if (outcome === "overtaken") return outcome;
  const state = outcome === "empty" ? "removed" : "open";
  if ((await commitBucket(context, mine, { ...mine.row, state })) === undefined) return "overtaken";
  return outcome === "empty" ? "removed" : "not-empty";
}

function infoOf(row: BucketRow): BucketInfo {
  assert(isKnown(row), "OGD17: users see no bucket that is made or removed");
  const { name, tenant, region, createdMs, settings, locking } = row;
  return { name, tenant, region, createdMs, settings: settings ?? NO_SETTINGS, ...(locking === undefined ? {} : { locking }) };
}

import { sameVersion, type MetadataCommit, type RowVersion } from "@concord/ports";
import { assert, ConcordError } from "@concord/runtime";
import type { DeleteCondition, Deleted } from "./api.ts";
import { commitOrResolve, commitRepeatable, putGarbage, type RepeatedOutcome } from "./commit-rows.ts";
import { nextVersion, putRow } from "./row-writes.ts";
import type { ObjectStoreContext } from "./context.ts";
import { eventWrites, leaveNumber } from "./events/event-writes.ts";
import { assertCounted, assertLeft, bodyLeftBy, countUsage, headOf, leftBy } from "./head-row.ts";
import { assertNotHeld, checkRemovable, type Bypass } from "./locks.ts";
import { checkKey } from "./names.ts";
import { checkDeleteCondition } from "./preconditions.ts";
import { headKey, isHeadKey, versionKey } from "./row-keys.ts";
import type { DeleteMarker, ObjectVersion, StoredObject } from "./rows.ts";
import { assertJudged, headerCondition, viewShard, type ShardView, type Versioned } from "./shard-view.ts";
import { findVersion, nameOf, NULL_VERSION_ID, promote, rowKeysOfVersion, succeed, versionIdOf } from "./versions.ts";
import type { FoundVersion } from "./versions.ts";

type Deletion = "deleted" | "changed";
/** Who removes it, as events say. */
type By = "ObjectRemoved" | "LifecycleExpiration";

export interface DeleteRequest {
  readonly bucket: string;
  readonly key: string;
  readonly condition?: DeleteCondition;
  /** Exactly this version; without it a versioned bucket keeps all and gets a delete marker. */
  readonly versionId?: string | undefined;
  /** Of what governance mode keeps. */
  readonly bypass?: Bypass;
  /** Only where it is exactly this row, current or not as then: PRECONDITION_FAILED. */
  readonly exactly?: { readonly version: RowVersion; readonly isCurrent: boolean };
}

/**
 * Removes the object, if there is one: the head row goes, exactly its blobs are garbage (I4), the usage falls. In a bucket with versions it
 * puts a delete marker; with a version's id that version goes, and the newest of the others is current. One batch each. BUCKET_UNKNOWN,
 * WRITE_CONFLICT; OUTCOME_UNKNOWN. The commit names the version on which lock and condition were checked: PERMISSION_DENIED, PRECONDITION_FAILED,
 * and OBJECT_UNKNOWN for If-Match of nothing. MALFORMED_REQUEST: no version id.
 */
export async function deleteObject(context: ObjectStoreContext, request: DeleteRequest): Promise<Deleted> {
  const { bucket, key, condition = {}, versionId, bypass, exactly } = request;
  assert(exactly === undefined || exactly.isCurrent || versionId !== undefined, "I16: what is not current is removed by its id");
  checkKey(key);
  const rowKeys = rowKeysOfVersion(key, versionId);
  assert(exactly === undefined || bypass === undefined, "OGD21: a lifecycle rule bypasses no lock");
  const by: By = exactly === undefined ? "ObjectRemoved" : "LifecycleExpiration";
  let first: ObjectVersion | undefined;
  for (let attempt = 1; attempt <= context.limits.commitAttemptsMax; attempt += 1) {
    const view = await viewShard(context, "write", bucket, key, rowKeys);
    checkExactly(view, request);
    if (view.header.row.versioning === undefined) {
      if (versionId !== undefined && versionId !== NULL_VERSION_ID) return { isMarker: false, versionId };
      const found = headOf(view);
      checkDeleteCondition(condition, found?.row);
      await checkRemovable(context, found?.row, bypass);
      if (found === undefined || (await commitDelete(context, view, found, by)) === "deleted") return { isMarker: false, versionId };
    } else if (versionId === undefined) {
      checkDeleteCondition(condition, headOf(view)?.row);
      const marker = await putMarker(context, view, by);
      if (marker !== undefined) return { isMarker: true, versionId: versionIdOf(marker.version) };
    } else {
      const found = findVersion(view, versionId);
      checkDeleteCondition(condition, found?.row.kind === "object" ? found.row : undefined);
      await checkRemovable(context, found?.row, bypass);
      if (found === undefined) return { isMarker: false, versionId };
      first ??= nameOf(found);
      const deletion = await removeVersion(context, view, found, { first, versionId, by });
      if (deletion === "deleted") return { isMarker: found.row.kind === "marker", versionId };
    }
  }
  throw new ConcordError("WRITE_CONFLICT", "too many others write this object");
}

function checkExactly(view: ShardView, { exactly, versionId }: DeleteRequest): void {
  if (exactly === undefined) return;
  const found = findVersion(view, versionId);
  if (found?.isCurrent !== exactly.isCurrent || !sameVersion(found.version, exactly.version))
    throw new ConcordError("PRECONDITION_FAILED", "it is not the row that was judged", { metadata: { condition: "exactly" } });
}

/** Undefined: others wrote the key, and nothing was done. */
async function putMarker(context: ObjectStoreContext, view: ShardView, by: By): Promise<DeleteMarker | undefined> {
  const guid = await context.guids.next();
  const next = await succeed(context, view, guid);
  if (next.version === undefined) return undefined;
  const marker: DeleteMarker = { kind: "marker", version: next.version, modifiedMs: context.clock.nowMs() };
  const key = headKey(view.key);
  const change = { name: `${by}:DeleteMarkerCreated`, number: next.rowVersion, versionId: versionIdOf(marker.version) } as const;
  const event = await eventWrites(context, view, change);
  const writes = [putRow(key, next.rowVersion, marker), ...next.writes, ...countUsage(next.replaced, undefined), ...event];
  assertCounted(next.replaced, undefined, writes);
  context.failpoint("object:before-delete");
  const result = await commitOrResolve(context, {
    view,
    guid,
    deciding: { key, observed: view.rows[0]?.version },
    movedTo: versionKey(view.key, next.version),
    conditions: next.conditions,
    writes,
    names: [],
  });
  context.failpoint("object:after-delete");
  switch (result.kind) {
    case "committed":
      return marker;
    case "conflict":
      return undefined;
    case "fenced":
      if (result.applied === "no") return undefined;
      throw new ConcordError("OUTCOME_UNKNOWN", "the store did not say whether the object was deleted; its delete marker is not there now");
    case "unresolved":
      throw new ConcordError("OUTCOME_UNKNOWN", "the store does not say whether the object was deleted", { cause: result.cause });
  }
}

/** The version's row goes, or the head gets the next one. At most once: the commit names a present row that it removes or replaces. */
async function removeVersion(
  context: ObjectStoreContext,
  view: ShardView,
  found: FoundVersion,
  { first, versionId, by }: { readonly first: ObjectVersion; readonly versionId: string; readonly by: By },
): Promise<Deletion> {
  const { bucket, key } = view;
  // Another null version by now: whether the first one went is not known, and a second removal could be too much.
  if (nameOf(found).guid !== first.guid) throw new ConcordError("WRITE_CONFLICT", "another null version was written meanwhile; try again");
  const guid = await context.guids.next();
  const commit = await removalOf(context, view, found, { guid, by });
  if (commit === undefined) return "changed";
  const record = await context.journal.beginDelete({ bucket, key, guid, version: found.version, versionId });
  const outcome = await commitRecorded(context, { bucket, key, commit, record });
  return outcome.kind === "committed" ? "deleted" : "changed";
}

/**
 * The commit in which a version goes; also to do it again, where the row is still exactly the one that was found. Undefined: it is not, by now.
 */
export async function removalOf(
  context: ObjectStoreContext,
  view: ShardView,
  found: FoundVersion,
  { guid, by }: { readonly guid: bigint; readonly by: By },
): Promise<MetadataCommit | undefined> {
  assertNotHeld(found.row);
  assertJudged(context, view);
  assert(view.header.row.versioning !== undefined, "I16: a version goes by its name where versions are kept");
  assert(found.isCurrent === isHeadKey(found.rowKey), "I16: the current version of a key is in its head row");
  const { bucket, key } = view;
  const number = nextVersion(found.version, context.clock, guid);
  const event = await eventWrites(context, view, { name: `${by}:Delete`, number, versionId: versionIdOf(nameOf(found)) });
  const left = leftBy(found.row);
  const garbage = left === undefined ? bodyLeftBy(key, found.row) : [putGarbage(context, guid, { bucket, key, what: left })];
  const rest = found.isCurrent
    ? await promote(context, view, number)
    : { conditions: [], writes: [{ kind: "delete", key: found.rowKey } as const] };
  if (rest === undefined) return undefined;
  const commit: MetadataCommit = {
    partition: view.partition,
    conditions: [headerCondition(view), { key: found.rowKey, version: found.version }, ...rest.conditions],
    writes: [...rest.writes, ...garbage, ...countUsage(found.row.kind === "object" ? found.row : undefined, undefined), ...event],
  };
  assertLeft(found.row, commit.writes);
  assertCounted(found.row, undefined, commit.writes);
  return commit;
}

/** The commit in which the object of a bucket without versions goes; also to do it again. */
export async function deletionOf(
  context: ObjectStoreContext,
  view: ShardView,
  found: Versioned<StoredObject>,
  { guid, by }: { readonly guid: bigint; readonly by: By },
): Promise<MetadataCommit> {
  assert(view.header.row.versioning === undefined, "OGD4: without its version only what no bucket keeps is deleted");
  assertJudged(context, view);
  const { bucket, key } = view;
  const left = leftBy(found.row);
  const number = nextVersion(found.version, context.clock, guid);
  const commit: MetadataCommit = {
    partition: view.partition,
    conditions: [headerCondition(view), { key: headKey(key), version: found.version }],
    writes: [
      { kind: "delete", key: headKey(key) },
      ...leaveNumber(context, view, number),
      ...(left === undefined ? [] : [putGarbage(context, guid, { bucket, key, what: left })]),
      ...bodyLeftBy(key, found.row),
      ...countUsage(found.row, undefined),
      ...(await eventWrites(context, view, { name: `${by}:Delete`, number })),
    ],
  };
  assertLeft(found.row, commit.writes);
  assertCounted(found.row, undefined, commit.writes);
  return commit;
}

async function commitDelete(context: ObjectStoreContext, view: ShardView, found: Versioned<StoredObject>, by: By): Promise<Deletion> {
  const { bucket, key } = view;
  const guid = await context.guids.next();
  const commit = await deletionOf(context, view, found, { guid, by });
  const record = await context.journal.beginDelete({ bucket, key, guid, version: found.version });
  const outcome = await commitRecorded(context, { bucket, key, commit, record });
  if (outcome.kind === "committed") return "deleted";
  const now = outcome.rows[1];
  // This commit arrived after all, or another one did: either way the object is gone.
  if (now === undefined) return "deleted";
  // A newer object may have replaced the old one or followed the delete: a second delete could remove too much.
  if (outcome.uncertain && now.version.guid !== found.version.guid) {
    throw new ConcordError("OUTCOME_UNKNOWN", "the object was written while the store did not say whether it was deleted");
  }
  return "changed";
}

/** Its record ends when the commit is decided: one without an answer is sent until the store answers (OG11). */
async function commitRecorded(
  context: ObjectStoreContext,
  { bucket, key, commit, record }: { bucket: string; key: string; commit: MetadataCommit; record: { resolve(): Promise<void> } },
): Promise<Exclude<RepeatedOutcome, { readonly kind: "unknown" }>> {
  context.failpoint("object:before-delete");
  const outcome = await commitRepeatable(context, commit).catch(async (error: unknown) => {
    // The store rejects only what it did not do.
    await record.resolve();
    throw error;
  });
  context.failpoint("object:after-delete");
  if (outcome.kind === "unknown") {
    const attempt = async (): Promise<boolean> => {
      const again = await context.metadata.commit(commit);
      if (again.kind !== "unknown") await record.resolve();
      return again.kind !== "unknown";
    };
    context.unresolved.add({ bucket, key, oids: [], attempt });
    throw new ConcordError("OUTCOME_UNKNOWN", "the store does not say whether the object was deleted", { cause: outcome.cause });
  }
  await record.resolve();
  return outcome;
}

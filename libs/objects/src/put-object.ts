import { assert, ConcordError } from "@concord/runtime";
import type { Precondition, Stored, UploadBody } from "./api.ts";
import { headToRestore, placedIn } from "./body-rows.ts";
import { commitOrResolve, confirmNames, abandonBlobs, type CommitAttempt, type CommitResult } from "./commit-rows.ts";
import { putRow } from "./row-writes.ts";
import type { ObjectStoreContext } from "./context.ts";
import { encryptedRow, newDataKey, type DataKey, type EncryptionRequest } from "./encryption/data-keys.ts";
import { sealedLength } from "./encryption/frames.ts";
import { admitEvent, eventWrites } from "./events/event-writes.ts";
import { assertCounted, countUsage, headOf } from "./head-row.ts";
import { checkAskedLock, checkLocking, lockOfNew } from "./locks.ts";
import { checkAcl, checkAttributes, checkKey } from "./names.ts";
import { checkWriteCondition } from "./preconditions.ts";
import { bodyKey, headKey, nullVersionKey, versionKey } from "./row-keys.ts";
import type { BodyRow, Content, EventName, ObjectAcl, ObjectAttributes, ObjectLock, StoredObject } from "./rows.ts";
import { checkJudged, viewShard, type ShardView } from "./shard-view.ts";
import { storeBody, type StoredBody } from "./store-body.ts";
import { succeed, versionIdOf, type Succession } from "./versions.ts";

export interface PutRequest {
  readonly bucket: string;
  readonly key: string;
  readonly body: UploadBody;
  readonly attributes: ObjectAttributes;
  readonly acl?: ObjectAcl | undefined;
  readonly lock?: ObjectLock | undefined;
  readonly precondition: Precondition;
  /** How it came, for its event; a put if absent. */
  readonly by?: "form" | "copy" | undefined;
  readonly encryption?: EncryptionRequest | undefined;
}

/** An upload whose bytes are durable; only its row is missing. */
interface Upload {
  readonly guid: bigint;
  readonly body: StoredBody;
  readonly key: DataKey | undefined;
  readonly attributes: ObjectAttributes;
  readonly acl: ObjectAcl | undefined;
  readonly lock: ObjectLock | undefined;
  readonly precondition: Precondition;
  readonly event: EventName;
}

/**
 * Stores an object, or replaces one: readers see the old or the new one, never a mixture, and it is durable when this resolves.
 * PRECONDITION_FAILED, OBJECT_UNKNOWN (If-Match of nothing), BUCKET_UNKNOWN, WRITE_CONFLICT; OUTCOME_UNKNOWN: it may be stored (OGD2).
 */
export async function putObject(context: ObjectStoreContext, request: PutRequest): Promise<Stored> {
  const { bucket, key, attributes, acl, lock, precondition } = request;
  checkKey(key);
  checkAttributes(attributes);
  checkAcl(acl);
  // 1. Read the current rows. An upload that must be refused is refused before its body; and the version that the first commit names is read
  //    before the blob exists, so a commit of ours after our epoch was recovered finds its fence (OGD3).
  const guid = await context.guids.next();
  const view = await viewShard(context, "write", bucket, key, [headKey(key)]);
  checkWriteCondition(precondition, headOf(view)?.row);
  await checkAskedLock(context, view.header.row, lock);
  const event = CREATED_BY[request.by ?? "put"];
  await admitEvent(context, view, event);
  // Without a key for what is to be encrypted nothing is stored (OGD23).
  const dataKey = request.encryption === undefined ? undefined : await newDataKey(context, request.encryption, request, guid);
  // 2. The bytes: small ones stay in memory, others go to a sealed blob (I1).
  const blob = { bucket, key, part: undefined, guid, replaces: await headToRestore(context, view) };
  const target = { view, blob, inlineBytesMax: context.limits.inlineBytesMax };
  const body = await storeBody(context, request.body, { ...target, key: dataKey && { key: dataKey, part: 0, guid } });
  // 3. The row: one commit, visible and durable at once.
  return await commitUpload(context, view, { guid, body, key: dataKey, attributes, acl, lock, precondition, event });
}

const CREATED_BY = { put: "ObjectCreated:Put", form: "ObjectCreated:Post", copy: "ObjectCreated:Copy" } as const;

/** The loser of a race looks at the row that won and tries again; the bytes stay where they are (OGD4). */
async function commitUpload(context: ObjectStoreContext, seen: ShardView, upload: Upload): Promise<Stored> {
  let view = seen;
  for (let attempt = 1; attempt <= context.limits.commitAttemptsMax; attempt += 1) {
    const { object, result } = await commitHead(context, view, upload);
    switch (result.kind) {
      case "committed":
        return { ...storedAs(object), checksum: upload.body.checksum };
      case "conflict":
        view = await lookAgain(context, result.view, upload);
        break;
      case "fenced":
        if (result.applied !== "no" || upload.body.names.length > 0) throw fencedError(result.applied);
        // Nothing of it is garbage and it was never there: once more.
        view = await lookAgain(context, await viewShard(context, "write", view.bucket, view.key, [headKey(view.key)]), upload);
        break;
      case "unresolved":
        throw new ConcordError("OUTCOME_UNKNOWN", "the store does not say whether the object was stored", { cause: result.cause });
    }
  }
  await abandonBlobs(context, { view, guid: upload.guid, names: upload.body.names });
  throw new ConcordError("WRITE_CONFLICT", "too many others write this object");
}

/** As the client gets it. */
export function storedAs({ etag, checksum, modifiedMs, version, encryption }: StoredObject): Stored {
  const versionId = version === undefined ? {} : { versionId: versionIdOf(version) };
  return { etag, checksum, modifiedMs, ...versionId, ...(encryption === undefined ? {} : { encryption: encryption.under }) };
}

/**
 * One batch: the head row, the versions before (kept, or garbage (I4)), the usage; conditional on exactly what was seen.
 */
async function commitHead(
  context: ObjectStoreContext,
  view: ShardView,
  upload: Upload,
): Promise<{ readonly object: StoredObject; readonly result: CommitResult }> {
  const { guid, body } = upload;
  const key = headKey(view.key);
  try {
    const next = await succeed(context, view, guid);
    // By the header that the commit names: the default that is in force then.
    const lock = await lockOfNew(context, view.header.row, upload.lock);
    const placed = placedIn(context, guid, body);
    const object = newObject(context, upload, { next, lock, content: placed.content });
    assertNamed(object, upload, next);
    assertPlaced(context, object, guid, placed.body);
    const { versionId } = storedAs(object);
    const event = await eventWrites(context, view, { name: upload.event, number: next.rowVersion, versionId, object });
    const attempt: CommitAttempt = {
      view,
      guid,
      deciding: { key, observed: view.rows[0]?.version },
      movedTo: next.version === undefined ? nullVersionKey(view.key) : versionKey(view.key, next.version),
      conditions: next.conditions,
      writes: [
        putRow(key, next.rowVersion, object),
        // With the row that says so, and under its version (I23).
        ...(placed.body === undefined ? [] : [putRow(bodyKey(view.key, guid), next.rowVersion, placed.body)]),
        ...next.writes,
        ...countUsage(next.replaced, object),
        ...event,
      ],
      names: body.names,
    };
    assertCounted(next.replaced, object, attempt.writes);
    const result = await commitOrResolve(context, attempt);
    return { object, result };
  } catch (error) {
    // The store rejects only what it did not do.
    await abandonBlobs(context, { view, guid, names: body.names });
    throw error;
  }
}

/** Lengths are those of the plaintext, wherever its bytes are. */
function assertPlaced(
  { limits }: ObjectStoreContext,
  { content, sizeBytes, encryption }: StoredObject,
  guid: bigint,
  body: BodyRow | undefined,
): void {
  const storedBytes = encryption === undefined ? sizeBytes : sealedLength(sizeBytes);
  assert(content.kind === "blob" || sizeBytes <= limits.inlineBytesMax, "OGD14: only small objects are in rows");
  assert(content.kind !== "inline" || sizeBytes <= limits.headBytesMax, "OGD14: listings read no body of more than a little");
  if (content.kind === "blob") assert(content.lengthBytes === sizeBytes, "I22: an object is as long as the plaintext of its blob");
  if (content.kind === "inline") assert(content.bytes.length === storedBytes, "I22: bytes in a row are those of its object");
  assert((content.kind === "beside") === (body !== undefined), "I23: a body is put with the row that names it");
  if (content.kind !== "beside") return;
  assert(content.guid === guid, "I23: a row names the body that is put with it");
  assert(body?.bytes.length === storedBytes, "I22: a body beside a row is as long as its object");
}

/** What the row says of its data is what was stored for it. */
function assertNamed({ content, encryption, checksum }: StoredObject, { body: { names }, key }: Upload, { replaced }: Succession): void {
  assert((encryption === undefined) === (key === undefined), "OGD23: the row of encrypted data says so");
  const tells = encryption !== undefined && encryption.under.kind !== "managed" && checksum !== undefined;
  assert(!tells, "OGD23: under a customer's or a service's key no checksum tells of the content");
  if (content.kind !== "blob") {
    assert(names.length === 0, "I11: a name is resolved by the commit whose row names its blob");
    return;
  }
  assert(names.length === 1 && names[0]!.oid === content.oid, "I1: the row names the blob that was sealed for it");
  assert(replaced?.content.kind !== "blob" || replaced.content.oid !== content.oid, "I5: what a commit makes garbage it does not name");
}

/** After a lost race: whether the upload is still wanted, by what is there now. */
async function lookAgain(context: ObjectStoreContext, current: ShardView, upload: Upload): Promise<ShardView> {
  context.metrics.count("objects_commit_conflicts_total");
  const { guid, body } = upload;
  let view = current;
  try {
    if (current.header.row.state !== "open") view = await viewShard(context, "write", current.bucket, current.key, [headKey(current.key)]);
    checkJudged(context, view.bucket, view.header.row.settings);
    checkWriteCondition(upload.precondition, headOf(view)?.row);
    // Of a bucket that was made again meanwhile.
    if (upload.lock !== undefined) checkLocking(view.header.row);
  } catch (error) {
    await abandonBlobs(context, { view: current, guid, names: body.names });
    throw error;
  }
  await confirmNames(context, { view, guid, names: body.names });
  return view;
}

/** The bytes are garbage, so the client must send them again. */
function fencedError(applied: "no" | "unknown"): ConcordError {
  if (applied === "no") return new ConcordError("REPLICAS_UNAVAILABLE", "the store lost the commit; the object was not stored");
  return new ConcordError("OUTCOME_UNKNOWN", "the store did not say whether the object was stored; it is not there now");
}

interface NewVersion {
  readonly next: Succession;
  readonly lock: Pick<StoredObject, "lock">;
  readonly content: Content;
}

function newObject(
  context: ObjectStoreContext,
  { body, key, attributes, acl }: Upload,
  { next: { version }, lock, content }: NewVersion,
): StoredObject {
  const { sizeBytes, md5Hex } = body;
  const more = {
    ...(version === undefined ? {} : { version }),
    ...(acl === undefined ? {} : { acl }),
    ...lock,
    ...encryptedRow(key, body),
  };
  return { kind: "object", content, sizeBytes, etag: md5Hex, modifiedMs: context.clock.nowMs(), attributes, ...more };
}

import { sameVersion, type MetadataWrite } from "@concord/ports";
import { assert, ConcordError, sleep } from "@concord/runtime";
import type { ObjectStore, Stored } from "../api.ts";
import { commitOrResolve, putGarbage, type CommitResult } from "../commit-rows.ts";
import { nextVersion, putRow } from "../row-writes.ts";
import type { ObjectStoreContext } from "../context.ts";
import { encryptedRow, sealChecksum, type DataKey } from "../encryption/data-keys.ts";
import { eventWrites } from "../events/event-writes.ts";
import { shownChecksum } from "../get-object.ts";
import { assertCounted, countUsage, objectOf } from "../head-row.ts";
import { lockOfNew } from "../locks.ts";
import { checkWriteCondition } from "../preconditions.ts";
import { doneUploadKey, headerKey, headKey, partKey, uploadKey } from "../row-keys.ts";
import { storedAs } from "../put-object.ts";
import type { StoredChecksum, StoredObject, UploadRow, UploadState } from "../rows.ts";
import { succeed, versionIdOf, type Succession } from "../versions.ts";
import { keyToComplete, withChecksums } from "./upload-key.ts";
import { UNNAMED_PER_COMMIT_MAX } from "./limits.ts";
import { checkPartList, readParts, selectParts, type ArrivedPart, type NamedParts, type SelectedParts } from "./select-parts.ts";
import { beingCompleted, changeState, isStale, uploadUnknown, viewUpload, type UploadName, type UploadView } from "./upload-view.ts";

type CompleteRequest = Parameters<ObjectStore["completeUpload"]>[0];
type Completing = Extract<UploadState, { readonly kind: "completing" }>;

/** An upload that is ours to complete. */
interface Acquired {
  readonly request: CompleteRequest;
  readonly guid: bigint;
  readonly state: Completing;
  /** To read checksums of parts and to store that of the object, where they are stored encrypted. */
  readonly key: DataKey | undefined;
}

/**
 * Makes the named parts the object of the key: nothing is visible before, everything after (OG14), in one commit. Repeating it within a day
 * answers as the first did (OGD11). Parts that are not named are garbage with it. UPLOAD_UNKNOWN, PART_INVALID, PART_ORDER, PART_TOO_SMALL,
 * PRECONDITION_FAILED: the upload is open as before. UPLOAD_STATE while another request completes it. OUTCOME_UNKNOWN: repeat it.
 */
export async function completeUpload(context: ObjectStoreContext, request: CompleteRequest): Promise<Stored> {
  checkPartList(request.parts);
  const deadlineAtMs = context.clock.monotonicMs() + context.limits.resolveWaitMs;
  let attempt = 1;
  while (attempt <= context.limits.commitAttemptsMax) {
    const found = await viewUpload(context, "write", request, [headKey(request.key)]);
    const { state } = found.upload.row;
    if (state.kind === "done") return await repeated(context, found, state, request);
    if (state.kind === "completing" && !isStale(context, state)) {
      if (context.clock.monotonicMs() >= deadlineAtMs) throw beingCompleted();
      await sleep(context.clock, context.limits.resolveBackoff.initialMs);
      continue;
    }
    // Open, or acquired by a completer that stopped long ago: its commit names a version that ours replaces.
    const stored = await acquireAndComplete(context, found, request);
    if (stored !== undefined) return stored;
    attempt += 1;
  }
  throw new ConcordError("WRITE_CONFLICT", "too many others work on this upload or its key");
}

/** Undefined: another request changed the upload. */
async function acquireAndComplete(context: ObjectStoreContext, found: UploadView, request: CompleteRequest): Promise<Stored | undefined> {
  // 1. Refuse while the upload is still open, so that a mistake costs nothing.
  const key = await keyToComplete(context, request, found.upload.row);
  const arrived = withChecksums(await readParts(context, found.view, request), key);
  try {
    selectParts(context, found.upload.row, arrived, request);
  } catch (error) {
    // Parts are read after the upload: an abort or another complete in between may have removed them, and then decides the answer.
    const now = await viewUpload(context, "write", request, []);
    if (!sameVersion(now.upload.version, found.upload.version)) return undefined;
    throw error;
  }
  checkWriteCondition(request.precondition, objectOf(found.rows[0])?.row);
  // 2. From here on no part, other complete or abort succeeds: every writer names the upload as it saw it (OGD11).
  const guid = await context.guids.next();
  const parts = request.parts.map(({ number, etag }) => ({ number, etag }));
  const state: Completing = { kind: "completing", guid, sinceMs: context.clock.nowMs(), parts };
  const upload = await changeState(context, found, request, state);
  context.failpoint("multipart:after-completing");
  if (upload === undefined) return undefined;
  const acquired = { request, guid, state, key };
  try {
    // 3. Read the final parts: one may have arrived between 1 and 2.
    const final = withChecksums(await readParts(context, found.view, request), key);
    const selected = selectParts(context, upload.row, final, request);
    const unnamed = await moveUnnamed(context, { ...found, upload }, acquired, selected);
    // 4. The object: visible and durable with one commit.
    return unnamed === undefined ? undefined : await commitObject(context, unnamed.seen, acquired, { ...selected, unnamed: unnamed.left });
  } catch (error) {
    await reopen(context, request, guid, error);
    throw error;
  }
}

/** All but one commit's worth of the parts that are not named: to garbage, in bounded commits, each under the acquisition. */
async function moveUnnamed(
  context: ObjectStoreContext,
  acquiredView: UploadView,
  { request, state }: Acquired,
  { unnamed }: SelectedParts,
): Promise<{ readonly seen: UploadView; readonly left: readonly ArrivedPart[] } | undefined> {
  let seen = acquiredView;
  let left = unnamed;
  while (left.length > UNNAMED_PER_COMMIT_MAX) {
    const writes = await dropParts(context, request, left.slice(0, UNNAMED_PER_COMMIT_MAX));
    // Also a sign that this completer lives.
    const upload = await changeState(context, seen, request, { ...state, sinceMs: context.clock.nowMs() }, writes);
    context.failpoint("multipart:after-unnamed");
    if (upload === undefined) {
      const now = await viewUpload(context, "write", request, []);
      if (!isAcquiredBy(now.upload.row, state.guid)) return undefined;
      seen = now;
      continue;
    }
    seen = { ...seen, upload };
    left = left.slice(UNNAMED_PER_COMMIT_MAX);
  }
  return { seen, left };
}

async function dropParts(context: ObjectStoreContext, { bucket, key, uploadId }: UploadName, parts: readonly ArrivedPart[]) {
  assert(parts.length <= UNNAMED_PER_COMMIT_MAX, "a commit drops a bounded number of parts");
  if (parts.length === 0) return [];
  const oids = parts.map(({ row }) => row.oid);
  return [
    ...parts.map(({ number }) => ({ kind: "delete", key: partKey(key, uploadId, number) }) as const),
    putGarbage(context, await context.guids.next(), { bucket, key, what: { kind: "blobs", oids } }),
  ];
}

/** Undefined: another request took the upload over. */
async function commitObject(
  context: ObjectStoreContext,
  first: UploadView,
  acquired: Acquired,
  selected: SelectedParts,
): Promise<Stored | undefined> {
  const { request, guid, key } = acquired;
  for (let attempt = 1; attempt <= context.limits.commitAttemptsMax; attempt += 1) {
    const seen =
      attempt === 1 ? await withHead(context, first, request) : await viewUpload(context, "write", request, [headKey(request.key)]);
    if (!isAcquiredBy(seen.upload.row, guid)) return undefined;
    checkWriteCondition(request.precondition, objectOf(seen.rows[0])?.row);
    const next = await succeed(context, { ...seen.view, rows: seen.rows }, guid);
    const lock = await lockOfNew(context, seen.view.header.row, seen.upload.row.lock);
    const object = { ...objectFrom(context, seen.upload.row, { request, key }, selected, next), ...lock };
    const { versionId } = storedAs(object);
    const change = { name: "ObjectCreated:CompleteMultipartUpload", number: next.rowVersion, versionId, object } as const;
    const event = await eventWrites(context, seen.view, change);
    context.failpoint("multipart:before-complete-commit");
    const result = await tryCommit(context, seen, acquired, { next, object, selected, event });
    context.failpoint("multipart:after-complete-commit");
    if (result.kind === "committed") return { ...storedAs(object), checksum: selected.checksum };
    if (result.kind === "unresolved") {
      throw new ConcordError("OUTCOME_UNKNOWN", "the store does not say whether the upload was completed; repeat it", {
        cause: result.cause,
      });
    }
    // Not written: the head changed, a fence was raised, or another took over, as the next look tells.
  }
  throw new ConcordError("WRITE_CONFLICT", "too many others write this object");
}

/** The view of the acquisition with the head as it is now, or all anew: the header says whether versions are kept, the head must be of its time. */
async function withHead(context: ObjectStoreContext, seen: UploadView, name: UploadName): Promise<UploadView> {
  const [header, head] = await context.metadata.read(seen.view.partition, [headerKey(), headKey(name.key)]);
  if (!sameVersion(header?.version, seen.view.header.version)) return viewUpload(context, "write", name, [headKey(name.key)]);
  return { ...seen, rows: [head] };
}

async function tryCommit(
  context: ObjectStoreContext,
  { view, upload, rows }: UploadView,
  { request, guid, state }: Acquired,
  { next, object, selected, event }: { next: Succession; object: StoredObject; selected: SelectedParts; event: readonly MetadataWrite[] },
): Promise<CommitResult> {
  const isEncrypted = upload.row.encryption !== undefined;
  assert(isEncrypted === (object.encryption !== undefined), "OGD23: an object of encrypted parts says so");
  assert(isAcquiredBy(upload.row, guid), "I14, OGD11: an upload is completed by the request that acquired it");
  const { key, uploadId } = request;
  assert(
    object.content.kind === "parts" && object.content.uploadId === uploadId,
    "OGD11: an object names the upload whose parts it is made of",
  );
  assert(state.parts.length === selected.named.length, "OGD11: a repeated complete is compared with the parts of the object");
  const tells = object.checksum !== undefined && isEncrypted && object.encryption!.under.kind !== "managed";
  assert(!tells, "OGD23: under a customer's or a service's key no checksum tells of the content");
  assert(
    selected.named.every(({ row }) => (row.encryption !== undefined) === isEncrypted),
    "OGD23: the parts of an object are encrypted all, or none",
  );
  const version = object.version === undefined ? {} : { version: object.version };
  const done: UploadState = { kind: "done", guid, etag: object.etag, doneMs: object.modifiedMs, parts: state.parts, ...version };
  const writes: readonly MetadataWrite[] = [
    putRow(headKey(key), next.rowVersion, object),
    { kind: "delete", key: uploadKey(key, uploadId) },
    putRow(doneUploadKey(key, uploadId), nextVersion(upload.version, context.clock, guid), { ...upload.row, state: done }),
    ...next.writes,
    ...(await dropParts(context, request, selected.unnamed)),
    ...countUsage(next.replaced, object),
    ...event,
  ];
  assertCounted(next.replaced, object, writes);
  return await commitOrResolve(context, {
    view,
    guid,
    deciding: { key: doneUploadKey(key, uploadId), observed: undefined },
    conditions: [
      { key: uploadKey(key, uploadId), version: upload.version },
      { key: headKey(key), version: rows[0]?.version },
      ...next.conditions,
    ],
    writes,
    names: [],
  });
}

function objectFrom(
  context: ObjectStoreContext,
  upload: UploadRow,
  { request: { uploadId }, key }: Pick<Acquired, "request" | "key">,
  selected: SelectedParts,
  { version }: Succession,
): StoredObject {
  const parts = selected.named.map(({ number, row }) => ({ number, lengthBytes: row.lengthBytes }));
  assertParts(parts, selected.sizeBytes);
  return {
    kind: "object",
    content: { kind: "parts", uploadId, parts },
    sizeBytes: selected.sizeBytes,
    etag: selected.etag,
    modifiedMs: context.clock.nowMs(),
    attributes: upload.attributes,
    checksum: selected.checksum,
    ...encryptionOf(upload, key, selected.checksum),
    ...(version === undefined ? {} : { version }),
    ...(upload.acl === undefined ? {} : { acl: upload.acl }),
  };
}

/** Readers find bytes by the lengths of the parts before them (OG14). */
function assertParts(parts: readonly { readonly number: number; readonly lengthBytes: number }[], sizeBytes: number): void {
  let [last, length] = [0, 0];
  for (const part of parts) {
    assert(part.number > last, "OG14: an object has each of its parts once, in their order");
    last = part.number;
    length += part.lengthBytes;
  }
  assert(length === sizeBytes, "OG14: an object has the bytes of its parts");
}

/** What the object's row says of its encryption, and of its checksum besides. */
function encryptionOf(
  { encryption }: UploadRow,
  key: DataKey | undefined,
  checksum: StoredChecksum | undefined,
): Pick<StoredObject, "encryption"> | Pick<StoredObject, "encryption" | "checksum"> {
  if (encryption === undefined) return {};
  if (encryption.under.kind === "managed" || checksum === undefined) return { encryption };
  assert(key !== undefined, "who combined encrypted checksums has their key");
  return encryptedRow(key, { checksum, sealedChecksum: sealChecksum(key, checksum) });
}

/** The same parts: the same answer, for a day. Others: as if there were no such upload (S3). */
async function repeated(
  context: ObjectStoreContext,
  { rows, upload }: UploadView,
  state: Extract<UploadState, { readonly kind: "done" }>,
  request: CompleteRequest,
): Promise<Stored> {
  const same = sameParts(state.parts, request.parts);
  if (!same || context.clock.nowMs() - state.doneMs > context.limits.completeRememberedMs) throw uploadUnknown(request.uploadId);
  const head = objectOf(rows[0])?.row;
  const isCurrent = head?.content.kind === "parts" && head.content.uploadId === request.uploadId;
  assert(!isCurrent || head.etag === state.etag, "OGD11: a repeated complete answers with the ETag of the object that it made");
  const versionId = state.version === undefined ? {} : { versionId: versionIdOf(state.version) };
  const key = await keyToComplete(context, request, upload.row);
  const { encryption } = upload.row;
  const checksum = isCurrent ? shownChecksum(head, key) : undefined;
  const encrypted = encryption === undefined ? {} : { encryption: encryption.under };
  return { etag: state.etag, checksum, modifiedMs: state.doneMs, ...versionId, ...encrypted };
}

function sameParts(left: NamedParts, right: NamedParts): boolean {
  return left.length === right.length && left.every((part, at) => part.number === right[at]!.number && part.etag === right[at]!.etag);
}

const isAcquiredBy = (row: UploadRow, guid: bigint): boolean => row.state.kind === "completing" && row.state.guid === guid;

/** A refused complete leaves the upload open; an unresolved one keeps it acquired until a repetition or staleness decides. */
async function reopen(context: ObjectStoreContext, request: CompleteRequest, guid: bigint, cause: unknown): Promise<void> {
  if (!(cause instanceof ConcordError) || cause.applied !== "no") return;
  // Whatever the bucket's settings are by now: it only takes back what the request did.
  const { judged: _, ...anytime } = context;
  try {
    const found = await viewUpload(anytime, "write", request, []);
    if (isAcquiredBy(found.upload.row, guid)) await changeState(context, found, request, { kind: "open" });
  } catch {
    context.log.warn("a refused complete could not open its upload again; it will be stale soon", { key: request.key });
  }
}

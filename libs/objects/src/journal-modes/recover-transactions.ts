// Recovery of what this gateway's own journal left, in the per-transaction modes (OG8, OG11, OG19). Decided by reference, as everything (OGD1).
import { parseOid, sameVersion, type MetadataCommit, type MetadataOutcome, type Oid, type RowVersion } from "@concord/ports";
import { assert, toConcordError } from "@concord/runtime";
import { assertCommit } from "../commit-invariants.ts";
import { putGarbage, raiseHeader } from "../commit-rows.ts";
import { nextVersion, putRow } from "../row-writes.ts";
import type { ObjectStoreContext } from "../context.ts";
import { assertCounted, assertLeft, bodyLeftBy, countUsage, leftBy, objectOf, versionOf } from "../head-row.ts";
import { deletionOf, removalOf } from "../delete-object.ts";
import { closeEpoch } from "../recovery/recover-epoch.ts";
import { decideBlobs, GarbageIndex, partitionOf, type OpenBlob, type BlobFate } from "../recovery/decide-blobs.ts";
import { DECIDE_ATTEMPTS_MAX, RECOVERY_PAGE_BLOBS } from "../recovery/limits.ts";
import { headerKey, headKey } from "../row-keys.ts";
import { headerOf } from "../shard-view.ts";
import { findVersion, rowKeysOfVersion } from "../versions.ts";
import type { GatewayJournal } from "./open-upload-journal.ts";
import type { BegunDelete, BegunUpload } from "./records.ts";

export interface TransactionsReport {
  readonly referenced: number;
  readonly collected: number;
  readonly absent: number;
  /** Basic form: the old row is back. */
  readonly restored: number;
  readonly deletesRedone: number;
  /** Left to the next run. */
  readonly undecided: number;
}

type UploadFate = BlobFate | "absent" | "restored";
type Redo = "redone" | "passed" | "undecided";

export async function recoverTransactions(context: ObjectStoreContext, journal: GatewayJournal): Promise<TransactionsReport> {
  const fates: Record<UploadFate, number> = { referenced: 0, collected: 0, absent: 0, restored: 0, undecided: 0 };
  const { uploads, deletes } = journal.left;
  const garbage = new GarbageIndex(context);
  // No writer of them may act any more before a row is looked at (OGD3).
  for (const epoch of new Set(uploads.map(({ oid }) => parseOid(oid).epoch))) await closeEpoch(context, epoch);
  for (let at = 0; at < uploads.length; at += RECOVERY_PAGE_BLOBS) {
    for (const [upload, fate] of await decideUploads(context, uploads.slice(at, at + RECOVERY_PAGE_BLOBS), garbage)) {
      fates[fate] += 1;
      assert(!journal.isOwn(parseOid(upload.oid).epoch), "OGD3: no writer of an upload that recovery decides may act any more");
      if (fate !== "undecided") journal.recovered(upload);
      context.failpoint("recovery:after-transaction");
    }
  }
  const decided = Object.values(fates).reduce((sum, count) => sum + count, 0);
  assert(decided === uploads.length, "OG8: each upload that was left is decided, or left to the next run");
  let deletesRedone = 0;
  for (const deletion of deletes) {
    const redo = await redoDelete(context, deletion).catch(undecided(context));
    context.failpoint("recovery:after-redo");
    if (redo === "undecided") fates.undecided += 1;
    else journal.recovered(deletion);
    if (redo === "redone") deletesRedone += 1;
  }
  return { ...fates, deletesRedone };
}

async function decideUploads(
  context: ObjectStoreContext,
  uploads: readonly BegunUpload[],
  garbage: GarbageIndex,
): Promise<readonly (readonly [BegunUpload, UploadFate])[]> {
  const present: OpenBlob[] = [];
  for (const { oid, description } of uploads) {
    // The journal knows what the blob was for, even when the blob itself does not, or cannot be read.
    if (await isThere(context, oid)) present.push({ oid, description });
  }
  const blobs = await decideBlobs(context, present, garbage);
  const fates: [BegunUpload, UploadFate][] = [];
  for (const upload of uploads) {
    const fate = blobs.get(upload.oid) ?? "absent";
    const restored = fate === "referenced" ? await restore(context, upload).catch(undecided(context)) : fate;
    fates.push([upload, restored]);
  }
  return fates;
}

async function isThere(context: ObjectStoreContext, oid: Oid): Promise<boolean> {
  try {
    return (await context.data.inspect(oid)).kind !== "absent";
  } catch (thrown) {
    if (toConcordError(thrown).code === "CORRUPT_DATA") return true;
    throw thrown;
  }
}

/**
 * Basic form: an upload without a commit record was never answered, so the old row is put back, by check-and-mutate (OG19). Only where
 * nothing but the row itself was replaced: what an old row named is garbage since the same commit, and garbage is never named again (OGD10);
 * such an upload stays, which is as good an end of an unanswered one.
 */
async function restore(context: ObjectStoreContext, { oid, description, form }: BegunUpload): Promise<UploadFate> {
  if (form.kind !== "basic" || description.part !== undefined) return "referenced";
  const old = form.old === undefined ? undefined : versionOf(form.old).row;
  if (leftBy(old) !== undefined || bodyLeftBy(description.key, old).length > 0) return "referenced";
  const partition = await partitionOf(context, description);
  const key = headKey(description.key);
  for (let attempt = 0; attempt < DECIDE_ATTEMPTS_MAX; attempt += 1) {
    const [headerRow, headRow] = await context.metadata.read(partition, [headerKey(), key]);
    const [header, head] = [headerOf(headerRow), objectOf(headRow)];
    // Another version by now: its writer saw this upload as done.
    // In a versioned bucket the old row went to another place.
    if (header === undefined || header.row.versioning !== undefined || old?.kind === "marker") return "referenced";
    // The commit may have been announced: it stays.
    if (header.row.events !== undefined) return "referenced";
    if (head === undefined || head.version.guid !== description.guid) return "referenced";
    if (head.row.content.kind !== "blob" || head.row.content.oid !== oid) return "referenced";
    const guid = await context.guids.next();
    const { bucket, key: name } = description;
    assert(leftBy(old) === undefined && bodyLeftBy(name, old).length === 0, "I5: a row that names garbage is not put back");
    const commit: MetadataCommit = {
      partition,
      conditions: [
        { key: headerKey(), version: header.version },
        { key, version: head.version },
      ],
      writes: [
        old === undefined ? { kind: "delete", key } : putRow(key, nextVersion(head.version, context.clock, guid), old),
        putGarbage(context, guid, { bucket, key: name, what: { kind: "blobs", oids: [oid] } }),
        ...countUsage(head.row, old),
        raiseHeader(context, header),
      ],
    };
    assertCommit(commit);
    assertLeft(head.row, commit.writes);
    assertCounted(head.row, old, commit.writes);
    const outcome = await context.metadata.commit(commit);
    if (outcome.kind === "committed") return "restored";
  }
  return "undecided";
}

/** Redoes the delete if the row is still exactly the recorded one; a later row belongs to another request (OG11). Idempotent (OG22). */
async function redoDelete(context: ObjectStoreContext, deletion: BegunDelete): Promise<Redo> {
  if (deletion.versionId !== undefined) return await redoRemoval(context, deletion, deletion.versionId);
  const { bucket, key, guid, version } = deletion;
  const partition = await partitionOf(context, { bucket, key, part: undefined, guid });
  for (let attempt = 0; attempt < DECIDE_ATTEMPTS_MAX; attempt += 1) {
    const [headerRow, headRow] = await context.metadata.read(partition, [headerKey(), headKey(key)]);
    const [header, head] = [headerOf(headerRow), objectOf(headRow)];
    if (header === undefined || head === undefined || !sameVersion(head.version, version)) return "passed";
    // Not answered, and the bucket keeps its versions by now: the object stays.
    if (header.row.versioning !== undefined) return "passed";
    const view = { bucket, key, partition, header, rows: [headRow] };
    const outcome = await commitExactly(context, await deletionOf(context, view, head, { guid, by: "ObjectRemoved" }), version);
    if (outcome.kind === "committed") return "redone";
  }
  return "undecided";
}

/** The same of one version. One that has become current since, or was replaced, has another row by now: it stays, as nothing was answered. */
async function redoRemoval(context: ObjectStoreContext, { bucket, key, guid, version }: BegunDelete, versionId: string): Promise<Redo> {
  const partition = await partitionOf(context, { bucket, key, part: undefined, guid });
  for (let attempt = 0; attempt < DECIDE_ATTEMPTS_MAX; attempt += 1) {
    const [headerRow, ...rows] = await context.metadata.read(partition, [headerKey(), ...rowKeysOfVersion(key, versionId)]);
    const header = headerOf(headerRow);
    if (header === undefined) return "passed";
    const view = { bucket, key, partition, header, rows };
    const found = findVersion(view, versionId);
    if (found === undefined || !sameVersion(found.version, version)) return "passed";
    const commit = await removalOf(context, view, found, { guid, by: "ObjectRemoved" });
    if (commit === undefined) continue;
    const outcome = await commitExactly(context, commit, version);
    if (outcome.kind === "committed") return "redone";
  }
  return "undecided";
}

async function commitExactly(context: ObjectStoreContext, commit: MetadataCommit, recorded: RowVersion): Promise<MetadataOutcome> {
  assertCommit(commit);
  assert(
    commit.conditions.some(({ version }) => sameVersion(version, recorded)),
    "OG11: a delete is redone on exactly the row of its record",
  );
  const outcome = await context.metadata.commit(commit);
  context.outbox.note(commit);
  return outcome;
}

function undecided(context: ObjectStoreContext): (thrown: unknown) => "undecided" {
  return (thrown) => {
    context.log.warn("a transaction of the journal could not be decided yet", { reason: toConcordError(thrown).message });
    return "undecided";
  };
}

import {
  sameVersion,
  type MetadataCommit,
  type MetadataCondition,
  type MetadataOutcome,
  type MetadataRow,
  type MetadataWrite,
  type RowVersion,
} from "@concord/ports";
import { assert, backoff, spanOver, toConcordError } from "@concord/runtime";
import { assertAttempt, assertCollected, assertCommit, assertRepeatable } from "./commit-invariants.ts";
import type { ObjectStoreContext } from "./context.ts";
import { decodeRow, referencesOf } from "./row-codec.ts";
import { assertAnswered } from "./page-invariants.ts";
import { garbageKey, headerKey } from "./row-keys.ts";
import type { GcEntry, ShardHeader } from "./rows.ts";
import { assertJudged, headerCondition, headerOf, type ShardView, type Versioned } from "./shard-view.ts";
import type { BlobName, Resolution } from "./upload-journal.ts";
import { raisedVersion, putRow } from "./row-writes.ts";

/** One attempt to change rows of a key. */
export interface CommitAttempt {
  /** Its header is named by the commit: raising it fences the attempt for ever (I3). */
  readonly view: ShardView;
  readonly guid: bigint;
  /** The row that tells whether it happened: the commit puts it with `guid`. */
  readonly deciding: { readonly key: Uint8Array; readonly observed: RowVersion | undefined };
  /** Where a later commit on the deciding row moves it: a version that is not current any more. */
  readonly movedTo?: Uint8Array;
  /** Besides the header and the deciding row. */
  readonly conditions: readonly MetadataCondition[];
  readonly writes: readonly MetadataWrite[];
  /** Blobs that no row named before. */
  readonly names: readonly BlobName[];
}

export type CommitResult =
  /** Durable and visible; the names are resolved. */
  | { readonly kind: "committed" }
  /** Never written, and never will be. The view as it is now: header, deciding row, rows of the other conditions. Names are the caller's. */
  | { readonly kind: "conflict"; readonly view: ShardView }
  /** It will never be written; the names are garbage. `applied` is unknown when it may have been written and replaced since. */
  | { readonly kind: "fenced"; readonly applied: "no" | "unknown" }
  /** Undecided, and queued for the background resolver; or decided, and the journal could not record it. */
  | { readonly kind: "unresolved"; readonly cause: unknown };

/** A GC entry due after the grace (OGD10). `ordinal` tells several of one commit apart. */
export function putGarbage(
  context: ObjectStoreContext,
  guid: bigint,
  garbage: Pick<GcEntry, "bucket" | "key" | "what">,
  ordinal = 0,
): MetadataWrite {
  const { clock, limits } = context;
  const nowMs = clock.nowMs();
  const dueMs = nowMs + limits.garbageGraceMs;
  assert(dueMs >= nowMs + limits.longestRequestMs, "OGD10: what a request may still read is garbage for as long as it may run");
  const row: GcEntry = { kind: "garbage", bucket: garbage.bucket, key: garbage.key, dueMs, what: garbage.what };
  return putRow(garbageKey(dueMs, guid, ordinal), { commit: clock.nowUs(), guid }, row);
}

/** The fence: every commit that names the header as it was seen fails from now on (I3). */
export function raiseHeader(context: ObjectStoreContext, header: Versioned<ShardHeader>): MetadataWrite {
  return putRow(headerKey(), raisedVersion(header.version, context.clock), header.row);
}

/**
 * Commits, and decides when the store cannot say (OGD2). Names are resolved unless it is a conflict or unresolved. While it is unresolved no
 * blob is touched (I2).
 */
export async function commitOrResolve(context: ObjectStoreContext, attempt: CommitAttempt): Promise<CommitResult> {
  const outcome = await commitAttempt(context, attempt);
  context.outbox.note({ partition: attempt.view.partition, conditions: [], writes: attempt.writes });
  context.failpoint("object:after-commit");
  switch (outcome.kind) {
    case "committed":
      return await decided(attempt, "referenced", outcome);
    case "conflict":
      return { kind: "conflict", view: viewOf(attempt, outcome.rows) };
    case "unknown":
      return await waitForDecision(context, attempt, outcome.cause);
  }
}

/**
 * One bounded attempt to decide an unresolved commit: a serial read, then, unless it is there, one commit that fences it and marks its
 * blobs as garbage. Undefined: not decided.
 */
export async function decideCommit(
  context: ObjectStoreContext,
  attempt: CommitAttempt,
  garbage: MetadataWrite,
): Promise<CommitResult | undefined> {
  const {
    view,
    deciding: { key },
    movedTo,
  } = attempt;
  const keys = [headerKey(), key, ...(movedTo === undefined ? [] : [movedTo])];
  const rows = await context.metadata.read(view.partition, keys);
  assertAnswered(rows, keys);
  const [headerRow, deciding, moved] = rows;
  if ([deciding, moved].some((row) => row !== undefined && isOf(row, attempt)))
    return await decided(attempt, "referenced", { kind: "committed" });
  const resolved = await fence(context, attempt, headerOf(headerRow), deciding, garbage);
  if (resolved === undefined) return undefined;
  const untouched = attempt.deciding.observed !== undefined && sameVersion(deciding?.version, attempt.deciding.observed);
  return await decided(attempt, resolved, { kind: "fenced", applied: untouched ? "no" : "unknown" });
}

/** From the rows as they were read, in which the attempt is not: it never will be. Undefined: they are other rows by now, or it is not known. */
async function fence(
  context: ObjectStoreContext,
  attempt: CommitAttempt,
  header: Versioned<ShardHeader> | undefined,
  deciding: MetadataRow | undefined,
  garbage: MetadataWrite,
): Promise<"garbage" | "absent" | undefined> {
  context.failpoint("object:before-fence");
  if (header === undefined) return await removeBlobs(context, attempt.names);
  // Another fence may have passed it already: then it fails whenever it arrives, and no second fence is needed.
  const passed = !sameVersion(header.version, attempt.view.header.version);
  const needed = !passed || header.row.state === "closed" || attempt.names.length === 0;
  const commit: MetadataCommit = {
    partition: attempt.view.partition,
    // Exactly what was read: the attempt may have arrived since.
    conditions: [
      { key: headerKey(), version: header.version },
      { key: attempt.deciding.key, version: deciding?.version },
    ],
    writes: [...(needed ? [raiseHeader(context, header)] : []), ...(attempt.names.length > 0 ? [garbage] : [])],
  };
  assertCommit(commit);
  assertCollected(header.row, commit.writes);
  const outcome = await context.metadata.commit(commit);
  context.failpoint("object:after-fence");
  return outcome.kind === "committed" ? "garbage" : undefined;
}

/**
 * Marks as garbage the blobs that no row names and no unresolved commit can name. In a closed shard the header is raised with it, so that the
 * bucket is not forgotten meanwhile (I9). Undefined: not now.
 */
async function collectBlobs(
  context: ObjectStoreContext,
  partition: string,
  names: readonly BlobName[],
  garbage: MetadataWrite,
): Promise<"garbage" | "absent" | undefined> {
  const keys = [headerKey()];
  const rows = await context.metadata.read(partition, keys);
  // Without its header a bucket is forgotten, and blobs are removed at once (I9).
  assertAnswered(rows, keys);
  const header = headerOf(rows[0]);
  if (header === undefined) return await removeBlobs(context, names);
  const commit: MetadataCommit = {
    partition,
    conditions: [{ key: headerKey(), version: header.version }],
    writes: [...(header.row.state === "closed" ? [raiseHeader(context, header)] : []), garbage],
  };
  assertCommit(commit);
  assertCollected(header.row, commit.writes);
  const outcome = await context.metadata.commit(commit);
  return outcome.kind === "committed" ? "garbage" : undefined;
}

/** For a forgotten bucket: no row can name the blobs, no reader can reach them, and no collection would find their GC entry. */
async function removeBlobs(context: ObjectStoreContext, names: readonly BlobName[]): Promise<"absent"> {
  for (const { oid } of names) await context.data.remove(oid);
  return "absent";
}

export type RepeatedOutcome =
  | { readonly kind: "committed" }
  | { readonly kind: "conflict"; readonly rows: readonly (MetadataRow | undefined)[]; readonly uncertain: boolean }
  | { readonly kind: "unknown"; readonly cause: unknown };

/**
 * Commits something that may be repeated: one of its conditions names a present row which the commit deletes or puts anew, so it happens
 * at most once however often it arrives. `uncertain`: a conflict that may be this commit's own work. Unknown: still so when time was up.
 */
export async function commitRepeatable(context: ObjectStoreContext, commit: MetadataCommit): Promise<RepeatedOutcome> {
  assertRepeatable(commit);
  assertCommit(commit);
  const { clock, limits } = context;
  const deadlineAtMs = clock.monotonicMs() + limits.resolveWaitMs;
  const retry = backoff(clock, limits.resolveBackoff);
  for (let uncertain = false; ; uncertain = true) {
    const outcome = await context.metadata.commit(commit);
    context.outbox.note(commit);
    if (outcome.kind === "committed") return outcome;
    if (outcome.kind === "conflict") {
      assert(outcome.rows.length === commit.conditions.length, "a conflict shows the row of each condition");
      return { ...outcome, uncertain };
    }
    if (!(await retry.pause({ deadlineAtMs }))) return outcome;
  }
}

/** The GC entry of an attempt's own blobs. Made once: a repeated write is idempotent. */
export function garbageOf(context: ObjectStoreContext, attempt: Pick<CommitAttempt, "view" | "guid" | "names">): MetadataWrite {
  const { bucket, key } = attempt.view;
  return putGarbage(
    context,
    attempt.guid,
    { bucket, key, what: { kind: "blobs", oids: attempt.names.map((name) => name.oid) } },
    OWN_BLOBS,
  );
}

/** Ordinals below are the caller's: what its commit replaces. */
const OWN_BLOBS = 255;

/**
 * Marks as garbage the blobs that were written and that no unresolved commit names. When the store fails now, the resolver retries.
 */
export async function abandonBlobs(context: ObjectStoreContext, attempt: Pick<CommitAttempt, "view" | "guid" | "names">): Promise<void> {
  if (attempt.names.length === 0) return;
  const garbage = garbageOf(context, attempt);
  const put = async (): Promise<boolean> => {
    const how = await collectBlobs(context, attempt.view.partition, attempt.names, garbage);
    if (how === undefined) return false;
    for (const name of attempt.names) await name.resolve(how);
    return true;
  };
  const done = await put().catch(() => false);
  if (!done) queueForResolution(context, attempt, put);
}

/**
 * After rows were read again: a blob of a closed epoch may be garbage by now, and belongs to recovery (OGD3, I5). When its epoch
 * cannot be read, the blob is abandoned: marking it as garbage twice is harmless.
 */
export async function confirmNames(context: ObjectStoreContext, attempt: Pick<CommitAttempt, "view" | "guid" | "names">): Promise<void> {
  for (const name of attempt.names) {
    try {
      await name.confirmLive();
    } catch (error) {
      if (toConcordError(error).code === "EPOCH_FENCED") context.journal.fenced(name.oid);
      else await abandonBlobs(context, attempt);
      throw error;
    }
  }
}

async function commitAttempt(context: ObjectStoreContext, attempt: CommitAttempt): Promise<MetadataOutcome> {
  const { view, deciding } = attempt;
  const conditions = [headerCondition(view), { key: deciding.key, version: deciding.observed }, ...attempt.conditions];
  const commit = { partition: view.partition, conditions, writes: attempt.writes };
  assert(view.header.row.state === "open", "OGD17: nothing is put into a bucket that is closed");
  assertJudged(context, view);
  assertAttempt(commit, deciding.key, attempt.guid);
  assertCommit(commit);
  const span = context.span?.child("metadata commit");
  return await (span === undefined ? context.metadata.commit(commit) : spanOver(span, context.metadata.commit(commit, span)));
}

async function waitForDecision(context: ObjectStoreContext, attempt: CommitAttempt, cause: unknown): Promise<CommitResult> {
  const { clock, limits } = context;
  context.metrics.count("objects_in_doubt_total");
  const garbage = garbageOf(context, attempt);
  const deadlineAtMs = clock.monotonicMs() + limits.resolveWaitMs;
  const retry = backoff(clock, limits.resolveBackoff);
  for (;;) {
    const result = await decideCommit(context, attempt, garbage).catch((error: unknown) => {
      context.log.warn("an unresolved commit could not be decided yet", { error: toConcordError(error).message });
      return undefined;
    });
    assert(result?.kind !== "conflict", "OGD2: a commit that was decided is there, or never will be");
    if (result !== undefined) return result;
    if (!(await retry.pause({ deadlineAtMs }))) break;
  }
  queueForResolution(context, attempt, async () => (await decideCommit(context, attempt, garbage)) !== undefined);
  return { kind: "unresolved", cause };
}

function queueForResolution(
  context: ObjectStoreContext,
  { view, names }: Pick<CommitAttempt, "view" | "names">,
  attempt: () => Promise<boolean>,
): void {
  context.unresolved.add({ bucket: view.bucket, key: view.key, oids: names.map((name) => name.oid), attempt });
}

/** By reference, not by version (OGD1): another commit may have raised its number or changed its tags since. */
function isOf(row: MetadataRow, attempt: CommitAttempt): boolean {
  if (row.version.guid === attempt.guid) return true;
  const decoded = decodeRow(row.value);
  if ((decoded.kind === "object" || decoded.kind === "marker") && decoded.version?.guid === attempt.guid) return true;
  const { oids } = referencesOf(decoded);
  return attempt.names.some((name) => oids.includes(name.oid));
}

/** The rows of a conflict in the order of `commitAttempt`'s conditions. */
function viewOf(attempt: CommitAttempt, rows: readonly (MetadataRow | undefined)[]): ShardView {
  assert(rows.length === attempt.conditions.length + 2, "a conflict shows the row of each condition");
  const [header, ...rest] = rows;
  return { ...attempt.view, header: headerOf(header) ?? CLOSED, rows: rest };
}

/** A bucket whose rows are gone is closed. */
const CLOSED: Versioned<ShardHeader> = { version: { commit: 0n, guid: 0n }, row: { kind: "header", state: "closed", shards: 1 } };

/** Resolves the names. A journal that cannot take its record leaves the upload unknown to the client, though it is decided. */
async function decided(attempt: CommitAttempt, how: Resolution, result: CommitResult): Promise<CommitResult> {
  assert((how === "referenced") === (result.kind === "committed"), "I11: a blob is referenced once the commit that names it is there");
  try {
    for (const name of attempt.names) await name.resolve(how);
    return result;
  } catch (error) {
    return { kind: "unresolved", cause: error };
  }
}

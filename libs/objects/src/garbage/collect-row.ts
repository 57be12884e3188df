// Collects one GC entry that is due: data first, the entry last, so an interrupted collection is repeated (OGD10).
import type { MetadataWrite, BlobDescription, BlobState, Oid } from "@concord/ports";
import { assert, unreachable } from "@concord/runtime";
import { putGarbage } from "../commit-rows.ts";
import { putRow, nextVersion } from "../row-writes.ts";
import type { ObjectStoreContext } from "../context.ts";
import { useOfUpload } from "../multipart/object-of-upload.ts";
import { assertForward } from "../page-invariants.ts";
import { partitionOf } from "../recovery/decide-blobs.ts";
import { isNamed } from "../recovery/older-versions.ts";
import { decodeRowAs } from "../row-codec.ts";
import { afterKey, garbageKey, lastNumberKey, partSpan, uploadOfKey } from "../row-keys.ts";
import type { GcEntry } from "../rows.ts";
import { PARTS_PER_COMMIT_MAX, REMOVALS_CONCURRENT } from "./limits.ts";

export interface CollectedRow {
  /** Blobs that were there and are gone now. */
  readonly blobs: number;
  /** What they held. */
  readonly bytes: number;
  /** A row names them although they are garbage: never removed, reported, and checked again after another grace (our bug, or damage). */
  readonly referenced: readonly Oid[];
  /** Writes that replace the GC entry; empty: nothing is left to do for it. */
  readonly instead: readonly MetadataWrite[];
}

/** `asOfMs`: the time it is taken to be, at least now. */
export async function collectRow(context: ObjectStoreContext, partition: string, garbage: GcEntry, asOfMs: number): Promise<CollectedRow> {
  const { what } = garbage;
  assert(garbage.dueMs <= asOfMs, "OGD10: nothing is collected before its grace is over");
  switch (what.kind) {
    case "blobs":
      return await collectBlobs(context, garbage, what.oids);
    case "upload":
      return await collectUpload(context, partition, garbage, what.uploadId, asOfMs);
    case "last number":
      return await collectNumber(context, partition, garbage.key, what.guid);
    default:
      return unreachable(what);
  }
}

/** Of a key that was not written again: a later removal left a number of its own. */
async function collectNumber(context: ObjectStoreContext, partition: string, key: string, guid: bigint): Promise<CollectedRow> {
  const [row] = await context.metadata.read(partition, [lastNumberKey(key)]);
  if (row?.version.guid === guid) {
    const conditions = [{ key: row.key, version: row.version }];
    const outcome = await context.metadata.commit({ partition, conditions, writes: [{ kind: "delete", key: row.key }] });
    if (outcome.kind === "unknown") throw outcome.cause;
  }
  return { blobs: 0, bytes: 0, referenced: [], instead: [] };
}

async function collectBlobs(context: ObjectStoreContext, garbage: GcEntry, oids: readonly Oid[]): Promise<CollectedRow> {
  const referenced: Oid[] = [];
  const removed = { blobs: 0, bytes: 0 };
  await eachOf(oids, REMOVALS_CONCURRENT, async (oid) => {
    const state = await context.data.inspect(oid);
    if (await isNamedAnywhere(context, oid, state, garbage)) {
      referenced.push(oid);
      return;
    }
    assert(!referenced.includes(oid), "I13: a blob that a row names is not removed");
    if (await context.data.remove(oid)) {
      removed.blobs += 1;
      removed.bytes += state.kind === "sealed" ? state.sealed.lengthBytes : 0;
    }
    context.failpoint("garbage:after-remove");
  });
  assert(removed.blobs + referenced.length <= oids.length, "I13: a blob of an entry is removed or kept, and once");
  const instead = referenced.length === 0 ? [] : await again(context, garbage, { kind: "blobs", oids: referenced });
  return { ...removed, referenced, instead };
}

/** So many at a time. */
export async function eachOf<Item>(items: readonly Item[], atOnce: number, act: (item: Item) => Promise<void>): Promise<void> {
  const waiting = [...items];
  const worker = async (): Promise<void> => {
    for (let item = waiting.shift(); item !== undefined; item = waiting.shift()) await act(item);
  };
  await Promise.all(Array.from({ length: Math.min(items.length, atOnce) }, worker));
}

/** By a serial read (I13) of the rows that may name the blob by its description, and by the GC entry's key. */
async function isNamedAnywhere(context: ObjectStoreContext, oid: Oid, state: BlobState, { bucket, key }: GcEntry): Promise<boolean> {
  if (state.kind === "absent") return false;
  const descriptions = state.description === undefined ? [] : [state.description];
  const isEntrys = (one: BlobDescription): boolean => one.bucket === bucket && one.key === key && one.part === undefined;
  if (bucket !== "" && !descriptions.some(isEntrys)) descriptions.push({ bucket, key, part: undefined, guid: 0n });
  for (const description of descriptions) {
    const partition = await partitionOf(context, description);
    if (await isNamed(context, partition, description, oid)) return true;
  }
  return false;
}

/** All parts, then the upload's row; a done one is remembered for a repeated complete first (OGD11). */
async function collectUpload(
  context: ObjectStoreContext,
  partition: string,
  garbage: GcEntry,
  uploadId: bigint,
  asOfMs: number,
): Promise<CollectedRow> {
  const { key } = garbage;
  const { upload, isNamed: isUsed } = await useOfUpload(context, partition, key, uploadId);
  const isOpen = upload !== undefined && upload.row.state.kind !== "done";
  if (isUsed || isOpen) {
    const parts = await partsOf(context, partition, key, uploadId);
    return { blobs: 0, bytes: 0, referenced: parts.map(({ oid }) => oid), instead: await again(context, garbage, garbage.what) };
  }
  assert(!isUsed && !isOpen, "OGD11: parts go once no object is made of them, nor can be");
  const removed = await collectParts(context, partition, key, uploadId);
  context.failpoint("garbage:after-parts");
  if (upload === undefined || upload.row.state.kind !== "done") return { ...removed, referenced: [], instead: [] };
  const forgetAtMs = upload.row.state.doneMs + context.limits.completeRememberedMs;
  if (forgetAtMs <= asOfMs) {
    assert(asOfMs - upload.row.state.doneMs >= context.limits.completeRememberedMs, "OGD11: a completed upload is remembered for a day");
    return { ...removed, referenced: [], instead: [{ kind: "delete", key: upload.key }] };
  }
  return { ...removed, referenced: [], instead: await againAt(context, garbage, garbage.what, forgetAtMs) };
}

/** Data of a page of parts, then their rows. */
async function collectParts(
  context: ObjectStoreContext,
  partition: string,
  key: string,
  uploadId: bigint,
): Promise<{ readonly blobs: number; readonly bytes: number }> {
  const removed = { blobs: 0, bytes: 0 };
  for (;;) {
    const page = await context.metadata.range(partition, { ...partSpan(key, uploadId), limit: PARTS_PER_COMMIT_MAX });
    if (page.length === 0) return removed;
    assert(
      page.every((row) => uploadOfKey(row.key).uploadId === uploadId),
      "OGD11: with an upload that is garbage its own parts go",
    );
    await eachOf(page, REMOVALS_CONCURRENT, async (row) => {
      const { oid, lengthBytes } = decodeRowAs("part", row.value);
      if (!(await context.data.remove(oid))) return;
      removed.blobs += 1;
      removed.bytes += lengthBytes;
    });
    context.failpoint("garbage:after-part-data");
    const outcome = await context.metadata.commit({
      partition,
      conditions: page.map((row) => ({ key: row.key, version: row.version })),
      writes: page.map((row) => ({ kind: "delete", key: row.key })),
    });
    // Another collector did it, or an answer was lost: the next run decides. The GC entry is deleted only when no part is left.
    if (outcome.kind === "unknown") throw outcome.cause;
  }
}

async function partsOf(
  context: ObjectStoreContext,
  partition: string,
  key: string,
  uploadId: bigint,
): Promise<readonly { readonly oid: Oid }[]> {
  const parts: { readonly oid: Oid }[] = [];
  let { from } = partSpan(key, uploadId);
  const { to } = partSpan(key, uploadId);
  for (;;) {
    const page = await context.metadata.range(partition, { from, to, limit: PARTS_PER_COMMIT_MAX });
    parts.push(...page.map((row) => decodeRowAs("part", row.value)));
    if (page.length < PARTS_PER_COMMIT_MAX) return parts;
    from = assertForward(from, afterKey(page.at(-1)!.key));
  }
}

/** The same garbage, after another grace. */
async function again(context: ObjectStoreContext, garbage: GcEntry, what: GcEntry["what"]): Promise<readonly MetadataWrite[]> {
  return [putGarbage(context, await context.guids.next(), { ...garbage, what })];
}

async function againAt(
  context: ObjectStoreContext,
  garbage: GcEntry,
  what: GcEntry["what"],
  dueMs: number,
): Promise<readonly MetadataWrite[]> {
  assert(dueMs > garbage.dueMs, "OGD10: a GC entry that is put off is due later");
  const guid = await context.guids.next();
  return [putRow(garbageKey(dueMs, guid), nextVersion(undefined, context.clock, guid), { ...garbage, what, dueMs })];
}

// Rows of parts against what may count on them: an open upload, an object, a GC entry (OGD11).
import { sameVersion, type MetadataRow } from "@concord/ports";
import { toConcordError } from "@concord/runtime";
import { commitRepeatable, putGarbage } from "../commit-rows.ts";
import type { ObjectStoreContext } from "../context.ts";
import { useOfUpload } from "../multipart/object-of-upload.ts";
import { assertForward } from "../page-invariants.ts";
import { afterKey, headKey, isPartKey, partSpan, uploadOfKey } from "../row-keys.ts";
import { STRAY_LOOKS } from "./limits.ts";
import { blobOf, garbageUploads, isGarbageOfUpload, readableRow } from "./row-findings.ts";
import type { Oid } from "@concord/ports";

export interface LeakedBlob {
  readonly oid: Oid;
  /** 0 when it was never sealed. */
  readonly lengthBytes: number;
}

const PAGE = 500;

/** Parts that no upload, object or GC entry counts on: no request reads them, and nothing collects them. */
export interface StrayUpload {
  readonly key: string;
  readonly uploadId: bigint;
  /** All of the upload whose rows can be read. */
  readonly blobs: readonly LeakedBlob[];
}

/**
 * Uploads with parts in the page that nothing counts on. Online: what drops the last use of parts writes their GC entry in the same commit (I4), so
 * parts that nothing uses between two looks at the same head, that no GC entry names after that, and that are still there then, are stray.
 */
export async function strayParts(
  context: ObjectStoreContext,
  partition: string,
  page: readonly MetadataRow[],
): Promise<readonly StrayUpload[]> {
  const named = page.flatMap(({ key }) => (isPartKey(key) ? [uploadOfKey(key)] : []));
  const uploads = new Map(named.map((upload) => [`${upload.uploadId}/${upload.key}`, upload]));
  const unused: { readonly key: string; readonly uploadId: bigint }[] = [];
  for (const upload of uploads.values()) if (!(await isUsed(context, partition, upload.key, upload.uploadId))) unused.push(upload);
  if (unused.length === 0) return [];
  const garbage = await garbageUploads(context, partition);
  const stray: StrayUpload[] = [];
  for (const { key, uploadId } of unused) {
    if (isGarbageOfUpload(garbage, partSpan(key, uploadId).from)) continue;
    const blobs = await blobsOf(context, partition, key, uploadId);
    if (blobs.length > 0) stray.push({ key, uploadId, blobs });
  }
  return stray;
}

/** True also where a row cannot be read, or the head changes too often to tell. */
async function isUsed(context: ObjectStoreContext, partition: string, key: string, uploadId: bigint): Promise<boolean> {
  try {
    for (let look = 0; look < STRAY_LOOKS; look += 1) {
      const { head, upload, isNamed } = await useOfUpload(context, partition, key, uploadId);
      if (isNamed || (upload !== undefined && upload.row.state.kind !== "done")) return true;
      const [now] = await context.metadata.read(partition, [headKey(key)]);
      if (sameVersion(now?.version, head?.version)) return false;
    }
    return true;
  } catch (thrown) {
    if (toConcordError(thrown).code !== "CORRUPT_DATA") throw thrown;
    return true;
  }
}

async function blobsOf(context: ObjectStoreContext, partition: string, key: string, uploadId: bigint): Promise<readonly LeakedBlob[]> {
  const blobs: LeakedBlob[] = [];
  let { from } = partSpan(key, uploadId);
  const { to } = partSpan(key, uploadId);
  for (;;) {
    const page = await context.metadata.range(partition, { from, to, limit: PAGE, onUnreadable: () => undefined });
    for (const found of page) {
      const row = readableRow(found);
      const blob = row === undefined ? undefined : blobOf(row);
      if (blob !== undefined) blobs.push(blob);
    }
    if (page.length < PAGE) return blobs;
    from = assertForward(from, afterKey(page.at(-1)!.key));
  }
}

/** They become garbage: kept for the grace, and collection looks once more whether an object is made of them. */
export async function collectStray(
  context: ObjectStoreContext,
  partition: string,
  bucket: string,
  { key, uploadId }: StrayUpload,
): Promise<boolean> {
  const garbage = putGarbage(context, await context.guids.next(), { bucket, key, what: { kind: "upload", uploadId } });
  const { kind } = await commitRepeatable(context, { partition, conditions: [], writes: [garbage] });
  return kind === "committed";
}

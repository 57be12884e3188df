import type { MetadataCondition, MetadataRow, MetadataWrite } from "@concord/ports";
import { assert, ConcordError, unreachable } from "@concord/runtime";
import { commitRepeatable } from "../commit-rows.ts";
import { nextVersion, putRow } from "../row-writes.ts";
import type { ObjectStoreContext } from "../context.ts";
import { checkKey } from "../names.ts";
import { decodeRowAs } from "../row-codec.ts";
import { doneUploadKey, uploadKey } from "../row-keys.ts";
import type { UploadRow, UploadState } from "../rows.ts";
import { headerCondition, viewShard, type ShardView, type Versioned } from "../shard-view.ts";

export interface UploadName {
  readonly bucket: string;
  readonly key: string;
  readonly uploadId: bigint;
}

/** An upload as it was at one moment, with other rows of its key. */
export interface UploadView {
  readonly view: ShardView;
  readonly upload: Versioned<UploadRow>;
  readonly rows: readonly (MetadataRow | undefined)[];
}

/** UPLOAD_UNKNOWN, BUCKET_UNKNOWN. */
export async function viewUpload(
  context: ObjectStoreContext,
  purpose: "read" | "write",
  { bucket, key, uploadId }: UploadName,
  rowKeys: readonly Uint8Array[],
): Promise<UploadView> {
  checkKey(key);
  for (const [at, rowKey] of [uploadKey(key, uploadId), doneUploadKey(key, uploadId)].entries()) {
    const view = await viewShard(context, purpose, bucket, key, [rowKey, ...rowKeys]);
    const [row, ...rows] = view.rows;
    // A row that is not there any more moved in the commit that completed the upload, so the second look finds it.
    if (row === undefined) continue;
    const upload = { version: row.version, row: decodeRowAs("upload", row.value) };
    assert(at === 0 || upload.row.state.kind === "done", "I15: where only its id finds an upload it is done");
    return { view, upload, rows };
  }
  throw uploadUnknown(uploadId);
}

/**
 * The upload, open: a part may come in, or an abort. One whose completing stopped long ago is opened again first (OGD11); its completer can
 * not end it any more, since it names the version it saw. UPLOAD_UNKNOWN when it is done, UPLOAD_STATE while another request completes it.
 */
export async function openUpload(context: ObjectStoreContext, name: UploadName, rowKeys: readonly Uint8Array[]): Promise<UploadView> {
  for (let attempt = 1; attempt <= context.limits.commitAttemptsMax; attempt += 1) {
    const found = await viewUpload(context, "write", name, rowKeys);
    const { state } = found.upload.row;
    switch (state.kind) {
      case "open":
        return found;
      case "done":
        throw uploadUnknown(name.uploadId);
      case "completing":
        if (!isStale(context, state)) throw beingCompleted();
        await changeState(context, found, name, { kind: "open" });
        break;
      default:
        unreachable(state);
    }
  }
  throw new ConcordError("WRITE_CONFLICT", "too many others work on this upload");
}

/** Its completer was silent for long. The time is from the completer's clock: a wrong guess costs it one repetition. */
export function isStale(context: ObjectStoreContext, state: Extract<UploadState, { readonly kind: "completing" }>): boolean {
  return context.clock.nowMs() - state.sinceMs >= context.limits.completeStaleMs;
}

/** Replaces the state of exactly the upload that was seen, and `writes` with it; undefined: it changed meanwhile. OUTCOME_UNKNOWN. */
export async function changeState(
  context: ObjectStoreContext,
  { view, upload }: UploadView,
  { key, uploadId }: UploadName,
  state: UploadState,
  writes: readonly MetadataWrite[] = [],
): Promise<Versioned<UploadRow> | undefined> {
  assert(upload.row.state.kind !== "done" && state.kind !== "done", "I15: an upload is done by the commit that moves its row");
  assert(state.kind !== "open" || upload.row.state.kind === "completing", "OGD11: only an upload that is being completed is opened again");
  const rowKey = uploadKey(key, uploadId);
  const row: UploadRow = { ...upload.row, state };
  const version = nextVersion(upload.version, context.clock, await context.guids.next());
  const outcome = await commitRepeatable(context, {
    partition: view.partition,
    conditions: [headerCondition(view), { key: rowKey, version: upload.version }],
    writes: [putRow(rowKey, version, row), ...writes],
  });
  if (outcome.kind === "unknown") {
    throw new ConcordError("OUTCOME_UNKNOWN", "the store does not say whether the upload's state was changed", { cause: outcome.cause });
  }
  if (outcome.kind === "committed") return { version, row };
  // Our own earlier commit, whose answer was lost.
  return outcome.rows[1]?.version.guid === version.guid ? { version: outcome.rows[1].version, row } : undefined;
}

/** That the upload is exactly as it was seen. Part rows need no conditions of their own: every writer of one names this too (OGD11). */
export function uploadCondition({ key, uploadId }: UploadName, upload: Versioned<UploadRow>): MetadataCondition {
  return { key: uploadKey(key, uploadId), version: upload.version };
}

export function uploadUnknown(uploadId: bigint): ConcordError {
  return new ConcordError("UPLOAD_UNKNOWN", "there is no such upload; it may have been completed or aborted", {
    metadata: { uploadId: String(uploadId) },
  });
}

export const beingCompleted = (): ConcordError => new ConcordError("UPLOAD_STATE", "another request is completing this upload");

import type { MetadataWrite } from "@concord/ports";
import { assert, ConcordError } from "@concord/runtime";
import { commitRepeatable } from "../commit-rows.ts";
import { putRow } from "../row-writes.ts";
import type { JudgeObject } from "../api.ts";
import type { ObjectStoreContext } from "../context.ts";
import { garbageKey, uploadKey } from "../row-keys.ts";
import type { GcEntry } from "../rows.ts";
import { headerCondition } from "../shard-view.ts";
import { openUpload, uploadCondition, type UploadName } from "./upload-view.ts";

/**
 * Ends an upload that was not completed: from here on no part is stored and no complete succeeds. Its parts are garbage, due at once, since
 * no request could read them. UPLOAD_UNKNOWN, UPLOAD_STATE (abort loses against completing, OGD11), OUTCOME_UNKNOWN.
 */
export async function abortUpload(
  context: ObjectStoreContext,
  name: UploadName & { readonly judge?: JudgeObject | undefined },
): Promise<void> {
  for (let attempt = 1; attempt <= context.limits.commitAttemptsMax; attempt += 1) {
    const { view, upload } = await openUpload(context, name, []);
    assert(upload.row.state.kind === "open", "OGD11: abort loses against completing");
    name.judge?.(upload.row);
    const writes = await writesOfEnd(context, name);
    context.failpoint("multipart:before-abort");
    const conditions = [headerCondition(view), uploadCondition(name, upload)];
    const outcome = await commitRepeatable(context, { partition: view.partition, conditions, writes });
    context.failpoint("multipart:after-abort");
    if (outcome.kind === "committed") return;
    if (outcome.kind === "unknown") {
      throw new ConcordError("OUTCOME_UNKNOWN", "the store does not say whether the upload was aborted", { cause: outcome.cause });
    }
    // Gone after a lost answer: this abort or another one did it.
    if (outcome.uncertain && outcome.rows[1] === undefined) return;
  }
  throw new ConcordError("WRITE_CONFLICT", "too many others work on this upload");
}

/** The upload's row goes, and its parts become garbage. */
export async function writesOfEnd(context: ObjectStoreContext, { bucket, key, uploadId }: UploadName): Promise<readonly MetadataWrite[]> {
  const guid = await context.guids.next();
  const dueMs = context.clock.nowMs();
  const garbage: GcEntry = { kind: "garbage", bucket, key, dueMs, what: { kind: "upload", uploadId } };
  return [
    { kind: "delete", key: uploadKey(key, uploadId) },
    putRow(garbageKey(dueMs, guid), { commit: context.clock.nowUs(), guid }, garbage),
  ];
}

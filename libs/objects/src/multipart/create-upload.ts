import { assert, ConcordError } from "@concord/runtime";
import type { NewUpload } from "../api.ts";
import { commitOrResolve } from "../commit-rows.ts";
import { nextVersion, putRow } from "../row-writes.ts";
import type { ObjectStoreContext } from "../context.ts";
import { newDataKey } from "../encryption/data-keys.ts";
import { checkAskedLock } from "../locks.ts";
import { checkAcl, checkAttributes, checkKey } from "../names.ts";
import { uploadKey } from "../row-keys.ts";
import type { UploadRow } from "../rows.ts";
import { viewShard } from "../shard-view.ts";

/** Begins an upload in parts; its id is a GUID (OG1, OG5). BUCKET_UNKNOWN; OUTCOME_UNKNOWN: there may be an upload, as listUploads shows. */
export async function createUpload(
  context: ObjectStoreContext,
  { bucket, key, attributes, checksum, acl, lock, encryption }: { readonly bucket: string; readonly key: string } & NewUpload,
): Promise<bigint> {
  checkKey(key);
  checkAttributes(attributes);
  checkAcl(acl);
  const uploadId = await context.guids.next();
  const rowKey = uploadKey(key, uploadId);
  // One data key for all parts, each of which has a key of its own derived from it (OGD24).
  const dataKey = encryption === undefined ? undefined : await newDataKey(context, encryption, { bucket, key }, uploadId);
  assert(dataKey === undefined || dataKey.encryption.guid === uploadId, "I21: the data key of an upload is bound to its id");
  const encrypted = dataKey === undefined ? {} : { encryption: dataKey.encryption };
  for (let attempt = 1; attempt <= context.limits.commitAttemptsMax; attempt += 1) {
    const view = await viewShard(context, "write", bucket, key, [rowKey]);
    await checkAskedLock(context, view.header.row, lock);
    const more = { ...(acl === undefined ? {} : { acl }), ...(lock === undefined ? {} : { lock }), ...encrypted };
    const asked = { attributes, checksum, ...more };
    const row: UploadRow = { kind: "upload", state: { kind: "open" }, initiatedMs: context.clock.nowMs(), ...asked };
    const result = await commitOrResolve(context, {
      view,
      guid: uploadId,
      deciding: { key: rowKey, observed: undefined },
      conditions: [],
      writes: [putRow(rowKey, nextVersion(undefined, context.clock, uploadId), row)],
      names: [],
    });
    context.failpoint("multipart:after-create");
    if (result.kind === "committed") return uploadId;
    if (result.kind === "unresolved") {
      throw new ConcordError("OUTCOME_UNKNOWN", "the store does not say whether the upload was begun", { cause: result.cause });
    }
    // A fence, another request's or our own: the row was not written. The header is read again.
  }
  throw new ConcordError("WRITE_CONFLICT", "too many others write to this bucket");
}

// The source of a copy: the caller needs the right to read it, whatever it may do with the bucket of the copy.
import type { CopySource, Judged } from "@concord/objects";
import { assert, ConcordError } from "@concord/runtime";
import { readCopySource, S3Error } from "@concord/s3";
import { UPLOAD_SHARE_BYTES } from "../limits.ts";
import type { S3Call } from "./call.ts";
import type { Context } from "./context.ts";
import { decide, judgeOf, knownObject } from "./access.ts";
import { customerKeyOf } from "./encryption.ts";
import type { Take } from "./quotas.ts";
import { checkBucketName, checkExpectedOwner } from "./request-checks.ts";

/** By the source as it is; undefined: whatever it is. */
type MayReadTags = (source: Judged | undefined) => boolean;

/** AccessDenied when the caller may not read the source. */
export async function copySourceOf(call: S3Call, context: Context): Promise<CopySource & { readonly mayReadTags: MayReadTags }> {
  const source = readCopySource(call.headers);
  assert(source !== undefined, "a copy is picked by its source");
  checkBucketName(source.bucket);
  const info = await context.store.headBucket(source.bucket);
  const access = context.access.accessOf(info);
  const { key, versionId } = source;
  const judge = judgeOf(access, call, [versionId === undefined ? "s3:GetObject" : "s3:GetObjectVersion"], key, versionId);
  checkExpectedOwner(call, info, "x-amz-source-expected-bucket-owner");
  const tagAction = versionId === undefined ? "s3:GetObjectTagging" : "s3:GetObjectVersionTagging";
  const mayReadTags: MayReadTags = (found) =>
    decide(access, call, tagAction, key, { versionId, object: found && knownObject(found) }).kind === "allowed";
  const customerKey = customerKeyOf(call, context, "source");
  return { ...source, precondition: { ...source.precondition, judge }, customerKey, mayReadTags };
}

/**
 * Runs a copy when there is room for another upload: it holds bytes as one does. It answers every condition of its source that does not hold
 * with 412, also the ones a GET answers with 304, and 400 where its source is a delete marker, named as such, or ends before its range does.
 */
export async function copying<Result>(
  { tenant, access }: S3Call,
  { uploads, space, quotas }: Context,
  action: (take: Take) => Promise<Result>,
): Promise<Result> {
  try {
    return await uploads.during(tenant, UPLOAD_SHARE_BYTES, async () => {
      await space.admit();
      return await quotas.duringLater(access.owner, action);
    });
  } catch (thrown) {
    throw failureOfSource(thrown);
  }
}

function failureOfSource(thrown: unknown): unknown {
  if (!(thrown instanceof ConcordError)) return thrown;
  if (thrown.code === "NOT_MODIFIED") return new S3Error("PreconditionFailed", undefined, { cause: thrown });
  const sizeBytes = thrown.metadata["sizeBytes"];
  if (thrown.code === "RANGE_UNSATISFIABLE" && sizeBytes !== undefined)
    return new S3Error("InvalidArgument", `Range specified is not valid for source object of size: ${sizeBytes}`, { cause: thrown });
  const isMarker = thrown.code === "OBJECT_UNKNOWN" && thrown.metadata["field"] === "marker";
  const message = "The source of a copy request may not specifically refer to a delete marker by version id.";
  return isMarker ? new S3Error("InvalidRequest", message, { cause: thrown }) : thrown;
}

// The source of a copy: it must be in a bucket of the caller, like the request's own bucket.
import type { CopySource } from "@concord/objects";
import { assert, ConcordError } from "@concord/runtime";
import { readCopySource, S3Error } from "@concord/s3";
import { UPLOAD_SHARE_BYTES } from "../limits.ts";
import type { Context, S3Call } from "./call.ts";
import { checkBucketName, checkOwner } from "./request-checks.ts";

/** AccessDenied when the source is another tenant's. */
export async function copySourceOf(call: S3Call, context: Context): Promise<CopySource> {
  const source = readCopySource(call.headers);
  assert(source !== undefined, "a copy is picked by its source");
  checkBucketName(source.bucket);
  await checkOwner(call, context, source.bucket, "x-amz-source-expected-bucket-owner");
  return source;
}

/**
 * Runs a copy when there is room for another upload: it holds bytes as one does. It answers every condition of its source that does not hold
 * with 412, also the ones a GET answers with 304.
 */
export async function copying<Result>({ tenant }: S3Call, { uploads, space }: Context, action: () => Promise<Result>): Promise<Result> {
  try {
    return await uploads.during(tenant, UPLOAD_SHARE_BYTES, async () => {
      await space.admit();
      return await action();
    });
  } catch (thrown) {
    if (thrown instanceof ConcordError && thrown.code === "NOT_MODIFIED")
      throw new S3Error("PreconditionFailed", undefined, { cause: thrown });
    throw thrown;
  }
}

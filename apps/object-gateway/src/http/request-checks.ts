// Checks every request passes: bucket name, owner.
import { checkBucketName as checkName } from "@concord/objects";
import { S3Error } from "@concord/s3";
import type { Context, S3Call } from "./call.ts";

/** NoSuchBucket; AccessDenied when it is another tenant's, or not that of whom the client expects. */
export async function checkOwner(call: S3Call, { store }: Context, bucket: string, expectation: string): Promise<void> {
  const { tenant } = await store.headBucket(bucket);
  if (tenant !== call.tenant) throw new S3Error("AccessDenied");
  const expected = call.headers.one(expectation);
  if (expected !== undefined && expected !== tenant) throw new S3Error("AccessDenied", "The bucket is not owned by the expected account.");
}

/** Rejects invalid bucket names with InvalidBucketName, whatever the operation. */
export function checkBucketName(name: string): void {
  try {
    checkName(name);
  } catch (cause) {
    throw new S3Error("InvalidBucketName", undefined, { cause });
  }
}

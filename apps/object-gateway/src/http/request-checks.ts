// Checks every request passes: bucket name, expected owner.
import { checkBucketName as checkName, type BucketInfo } from "@concord/objects";
import { S3Error } from "@concord/s3";
import type { S3Call } from "./call.ts";

/** AccessDenied when the bucket's owner is not whom the client expects. */
export function checkExpectedOwner(call: Pick<S3Call, "headers">, { tenant }: BucketInfo, expectation: string): void {
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

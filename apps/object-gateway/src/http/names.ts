import { checkBucketName as checkName } from "@concord/objects";
import { S3Error } from "@concord/s3";

/** What cannot name a bucket is told so, whatever was to be done with it. */
export function checkBucketName(name: string): void {
  try {
    checkName(name);
  } catch (cause) {
    throw new S3Error("InvalidBucketName", undefined, { cause });
  }
}

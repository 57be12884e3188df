// Whose bucket: nobody reads or changes what is another tenant's, also not as the source of a copy.
import { S3Error } from "@concord/s3";
import type { Context, S3Call } from "./call.ts";

/** NoSuchBucket; AccessDenied when it is another tenant's, or not that of whom the client expects. */
export async function checkOwner(call: S3Call, { store }: Context, bucket: string, expectation: string): Promise<void> {
  const { tenant } = await store.headBucket(bucket);
  if (tenant !== call.tenant) throw new S3Error("AccessDenied");
  const expected = call.headers.one(expectation);
  if (expected !== undefined && expected !== tenant) throw new S3Error("AccessDenied", "The bucket is not owned by the expected account.");
}

import { readCreateBucketConfiguration, S3Error } from "@concord/s3";
import type { Operation } from "./call.ts";
import { readDocument } from "./documents.ts";
import { empty } from "./responses.ts";

/** The caller's own bucket may be made again: nothing changes. A name that is somebody else's is refused. */
export const createBucket: Operation = async (call, context) => {
  const { bucket, tenant } = call;
  const { store, region } = context;
  const asked = readCreateBucketConfiguration(await readDocument(call, context)) ?? region;
  if (asked !== region)
    throw new S3Error("IllegalLocationConstraintException", `The ${asked} location constraint is incompatible: this is ${region}.`);
  await store.createBucket({ bucket, tenant, region });
  return empty(200, [["location", `/${bucket}`]]);
};

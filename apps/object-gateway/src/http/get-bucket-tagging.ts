import { S3Error, taggingXml } from "@concord/s3";
import type { Operation } from "./call.ts";
import { xml } from "./responses.ts";

/** NoSuchTagSet when there are none. */
export const getBucketTagging: Operation = async ({ bucket }, { store }) => {
  const tags = await store.bucketTags(bucket);
  if (Object.keys(tags).length === 0) throw new S3Error("NoSuchTagSet");
  return xml(taggingXml(tags));
};

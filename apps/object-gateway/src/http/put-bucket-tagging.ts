import { readTagging, TAGS_PER_BUCKET_MAX } from "@concord/s3";
import type { Operation } from "./call.ts";
import { readDocument } from "./documents.ts";
import { empty } from "./responses.ts";

/** Replaces all tags of the bucket. */
export const putBucketTagging: Operation = async (call, context) => {
  const tags = readTagging(await readDocument(call, context), TAGS_PER_BUCKET_MAX);
  await context.store.setBucketTags(call.bucket, tags);
  return empty(204);
};

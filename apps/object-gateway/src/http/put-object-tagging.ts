import { readTagging, TAGS_PER_OBJECT_MAX } from "@concord/s3";
import type { Operation } from "./call.ts";
import { readDocument } from "./documents.ts";
import { empty } from "./responses.ts";

/** Replaces all tags of the object. */
export const putObjectTagging: Operation = async (call, context) => {
  const tags = readTagging(await readDocument(call, context), TAGS_PER_OBJECT_MAX);
  await context.store.setObjectTags(call.bucket, call.key, tags);
  return empty(200);
};

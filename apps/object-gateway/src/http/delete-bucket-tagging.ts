import type { Operation } from "./call.ts";
import { empty } from "./responses.ts";

/** Success also when there were none. */
export const deleteBucketTagging: Operation = async ({ bucket }, { store }) => {
  await store.setBucketTags(bucket, {});
  return empty(204);
};

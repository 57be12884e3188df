import type { Operation } from "./call.ts";
import { empty } from "./responses.ts";

/** Success also when the object had none. */
export const deleteObjectTagging: Operation = async ({ bucket, key }, { store }) => {
  await store.setObjectTags(bucket, key, {});
  return empty(204);
};

import type { Operation } from "./call.ts";
import { empty } from "./responses.ts";

/** Success also when there was none. */
export const deleteObject: Operation = async ({ bucket, key }, { store }) => {
  await store.deleteObject({ bucket, key });
  return empty(204);
};

import type { Operation } from "./call.ts";
import { empty } from "./responses.ts";

/** Only an empty one (OGD17). */
export const deleteBucket: Operation = async ({ bucket }, { store }) => {
  await store.deleteBucket(bucket);
  return empty(204);
};

import type { Operation } from "./call.ts";
import { uploadIdOf } from "./parameters.ts";
import { empty } from "./responses.ts";

/** Its parts become garbage; an upload that is being completed wins (OGD11). */
export const abortMultipartUpload: Operation = async ({ bucket, key, query }, { store }) => {
  await store.abortUpload({ bucket, key, uploadId: uploadIdOf(query) });
  return empty(204);
};

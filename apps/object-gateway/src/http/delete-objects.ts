import { deleteResultXml, readDelete, toS3Error, type S3Error } from "@concord/s3";
import { DELETES_AT_ONCE } from "../limits.ts";
import type { Operation } from "./call.ts";
import { readDocument } from "./documents.ts";
import { xml } from "./responses.ts";

/** Up to a thousand keys, each deleted by itself: some may fail, and the answer says which. */
export const deleteObjects: Operation = async (call, context) => {
  const { bucket } = call;
  const { keys, quiet } = readDelete(await readDocument(call, context, { integrity: "required" }));
  const deleted: string[] = [];
  const failed: { key: string; error: S3Error }[] = [];
  const deleteOne = (key: string): Promise<unknown> =>
    context.store.deleteObject({ bucket, key }).then(
      () => deleted.push(key),
      (thrown: unknown) => {
        const error = toS3Error(thrown);
        if (error.status === 500) context.log.error("a delete of many failed", { requestId: call.requestId, reason: String(thrown) });
        return failed.push({ key, error });
      },
    );
  for (let at = 0; at < keys.length; at += DELETES_AT_ONCE) await Promise.all(keys.slice(at, at + DELETES_AT_ONCE).map(deleteOne));
  return xml(deleteResultXml({ quiet, deleted, failed }));
};

import { readPrecondition } from "@concord/s3";
import { attributesOf } from "./attributes.ts";
import type { Operation } from "./call.ts";
import { checksumHeaders, empty, quoted } from "./responses.ts";
import { withUpload } from "./uploads.ts";

/** Data first, then the row (OG2); 200 only when both are durable. */
export const putObject: Operation = async (call, context) => {
  const { bucket, key, headers } = call;
  const attributes = attributesOf(headers);
  const precondition = readPrecondition(headers);
  const stored = await withUpload(call, context, {}, (body) => context.store.putObject({ bucket, key, body, attributes, precondition }));
  return empty(200, [["etag", quoted(stored.etag)], ...checksumHeaders(stored.checksum)]);
};

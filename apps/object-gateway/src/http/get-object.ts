import { readOverrides, readPrecondition, readRange, S3Error } from "@concord/s3";
import type { Operation } from "./call.ts";
import { contentRange, partsCountHeaders, readPart, wholeChecksumHeaders } from "./object-parts.ts";
import { objectHeaders } from "./responses.ts";
import { counting } from "./uploads.ts";

/** The whole object, a range of it, or one part. */
export const getObject: Operation = async (call, { store, metrics }) => {
  const { bucket, key, headers } = call;
  const part = readPart(call);
  const range = readRange(headers);
  if (part !== undefined && range !== undefined)
    throw new S3Error("InvalidRequest", "Cannot specify both Range header and partNumber query parameter");
  const found = await store.getObject({ bucket, key, range, part, precondition: readPrecondition(headers) });
  const isWhole = range === undefined && part === undefined;
  return {
    status: isWhole ? 200 : 206,
    headers: [
      ["content-length", String(found.lengthBytes)],
      ...objectHeaders(found.object, readOverrides(call.query)),
      ...(isWhole ? wholeChecksumHeaders(call, found.object) : [contentRange(found.offset, found.lengthBytes, found.object.sizeBytes)]),
      ...(part === undefined ? [] : partsCountHeaders(found.object)),
    ],
    body: counting(found.bytes, (bytes) => metrics.count("s3_sent_bytes_total", bytes)),
  };
};

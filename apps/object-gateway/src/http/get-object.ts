import type { ByteRange, FoundObject, ObjectStore } from "@concord/objects";
import { ConcordError } from "@concord/runtime";
import { readOverrides, readPrecondition, readRange, S3Error, type Fields } from "@concord/s3";
import type { Operation } from "./call.ts";
import { contentRange, partsCountHeaders, rangeHolds, readPart, wholeChecksumHeaders } from "./object-parts.ts";
import { objectHeaders } from "./responses.ts";
import { counting } from "./bodies.ts";

/** The whole object, a range of it, or one part. */
export const getObject: Operation = async (call, { store, metrics }) => {
  const { bucket, key, headers } = call;
  const part = readPart(call);
  const asked = readRange(headers);
  if (part !== undefined && asked !== undefined)
    throw new S3Error("InvalidRequest", "Cannot specify both Range header and partNumber query parameter");
  const request = { bucket, key, part, precondition: readPrecondition(headers) };
  const { found, range } = await (asked !== undefined && headers.has("if-range")
    ? ifUnchanged(headers, store, request, asked)
    : store.getObject({ ...request, range: asked }).then((all) => ({ found: all, range: asked })));
  const isWhole = range === undefined && part === undefined;
  return {
    status: isWhole ? 200 : 206,
    headers: [
      ["content-length", String(found.lengthBytes)],
      ...objectHeaders(found.object, readOverrides(call.query)),
      ...(isWhole ? wholeChecksumHeaders(call, found.object) : [contentRange(found, found.object.sizeBytes)]),
      ...(part === undefined ? [] : partsCountHeaders(found.object)),
    ],
    body: counting(found.bytes, (bytes) => metrics.count("s3_sent_bytes_total", bytes)),
  };
};

type GetRequest = Parameters<ObjectStore["getObject"]>[0];

/** The range for a client that has the beginning of this very object; for others the whole: never blobs of two objects (RFC 9110, 13.1.5). */
async function ifUnchanged(
  headers: Fields,
  store: ObjectStore,
  request: Omit<GetRequest, "range">,
  range: ByteRange,
): Promise<{ readonly found: FoundObject; readonly range: ByteRange | undefined }> {
  const whole = await store.getObject({ ...request, range: undefined });
  if (!rangeHolds(headers, whole.object)) return { found: whole, range: undefined };
  try {
    return { found: await store.getObject({ ...request, range, precondition: { ifMatch: [whole.object.etag] } }), range };
  } catch (thrown) {
    const isGone = thrown instanceof ConcordError && (thrown.code === "PRECONDITION_FAILED" || thrown.code === "OBJECT_UNKNOWN");
    if (isGone) return { found: whole, range: undefined };
    throw thrown;
  }
}

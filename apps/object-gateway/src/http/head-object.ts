import { readOverrides, readPrecondition, readRange, S3Error } from "@concord/s3";
import type { Operation } from "./context.ts";
import { customerKeyOf, objectEncryptionHeaders } from "./encryption.ts";
import { expirationHeader } from "./lifecycle.ts";
import { lockHeadersOf } from "./object-lock.ts";
import {
  contentRange,
  partChecksumHeaders,
  partsCountHeaders,
  partSpan,
  rangeHolds,
  rangeSpan,
  readPart,
  wantsChecksum,
  wholeChecksumHeaders,
} from "./object-parts.ts";
import { objectHeaders } from "./responses.ts";

/** The headers of GET, without the bytes. */
export const headObject: Operation = async (call, context) => {
  const { store } = context;
  const { bucket, key, headers, judge } = call;
  const part = readPart(call);
  const range = readRange(headers);
  if (part !== undefined && range !== undefined)
    throw new S3Error("InvalidRequest", "Cannot specify both Range header and partNumber query parameter");
  const precondition = { ...readPrecondition(headers), judge };
  const customerKey = customerKeyOf(call, context);
  const checksum = wantsChecksum(call) ? ("wanted" as const) : undefined;
  const request = { bucket, key, precondition, versionId: call.query.one("versionId"), customerKey, checksum };
  const isPartChecked = part !== undefined && checksum !== undefined;
  const { object, parts } = isPartChecked
    ? await store.headObjectParts({ ...request, after: part - 1, limit: 1 })
    : { object: await store.headObject(request), parts: undefined };
  const isRange = range !== undefined && rangeHolds(headers, object);
  const span = part === undefined ? (isRange ? rangeSpan(range, object.sizeBytes) : undefined) : partSpan(object, part);
  return {
    status: span === undefined ? 200 : 206,
    headers: [
      ["content-length", String(span?.lengthBytes ?? object.sizeBytes)],
      ...objectHeaders(object, readOverrides(call.query)),
      ...lockHeadersOf(call, object),
      ...objectEncryptionHeaders(object, customerKey),
      ...expirationHeader(call, context, object),
      ...(span === undefined ? wholeChecksumHeaders(call, object) : [contentRange(span, object.sizeBytes)]),
      ...(part === undefined ? [] : [...partChecksumHeaders(call, object, part, parts), ...partsCountHeaders(object)]),
    ],
  };
};

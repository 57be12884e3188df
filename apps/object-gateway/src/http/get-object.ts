import type { ByteRange, FoundObject, ObjectStore, PartPage } from "@concord/objects";
import { ConcordError, toConcordError } from "@concord/runtime";
import { readOverrides, readPrecondition, readRange, S3Error, type Fields } from "@concord/s3";
import type { S3Call } from "./call.ts";
import type { Context, Operation } from "./context.ts";
import { customerKeyOf, objectEncryptionHeaders } from "./encryption.ts";
import { expirationHeader } from "./lifecycle.ts";
import { lockHeadersOf } from "./object-lock.ts";
import {
  contentRange,
  partChecksumHeaders,
  partsCountHeaders,
  rangeHolds,
  readPart,
  wantsChecksum,
  wholeChecksumHeaders,
} from "./object-parts.ts";
import { objectHeaders } from "./responses.ts";
import { counting } from "./bodies.ts";

/** The whole object, a range of it, or one part. */
export const getObject: Operation = async (call, context) => {
  const { store, metrics } = context;
  const { bucket, key, headers, judge } = call;
  const part = readPart(call);
  const asked = readRange(headers);
  if (part !== undefined && asked !== undefined)
    throw new S3Error("InvalidRequest", "Cannot specify both Range header and partNumber query parameter");
  const customerKey = customerKeyOf(call, context);
  const precondition = { ...readPrecondition(headers), judge };
  const request = { bucket, key, part, precondition, versionId: call.query.one("versionId"), customerKey };
  const { found, range } = await (asked !== undefined && headers.has("if-range")
    ? ifUnchanged(headers, store, request, asked)
    : store.getObject({ ...request, range: asked }).then((all) => ({ found: all, range: asked })));
  const page = part === undefined || !wantsChecksum(call) ? undefined : await partOf(store, request, found, part);
  const isWhole = range === undefined && part === undefined;
  return {
    status: isWhole ? 200 : 206,
    headers: [
      ["content-length", String(found.lengthBytes)],
      ...objectHeaders(found.object, readOverrides(call.query)),
      ...lockHeadersOf(call, found.object),
      ...objectEncryptionHeaders(found.object, customerKey),
      ...expirationHeader(call, context, found.object),
      ...(isWhole ? wholeChecksumHeaders(call, found.object) : [contentRange(found, found.object.sizeBytes)]),
      ...(part === undefined ? [] : [...partChecksumHeaders(call, found.object, part, page), ...partsCountHeaders(found.object)]),
    ],
    body: await begun(counting(download(found, call, context), (bytes) => metrics.count("s3_sent_bytes_total", bytes))),
  };
};

/** The part's checksum, of the very object that is sent: without one if that is gone meanwhile. */
async function partOf(
  store: ObjectStore,
  request: Omit<GetRequest, "range">,
  { object }: FoundObject,
  part: number,
): Promise<PartPage | undefined> {
  if (object.content.kind !== "parts") return undefined;
  const precondition = { judge: request.precondition.judge, ifMatch: [object.etag] };
  try {
    return (await store.headObjectParts({ ...request, precondition, checksum: "wanted", after: part - 1, limit: 1 })).parts;
  } catch (thrown) {
    if (isGone(thrown)) return undefined;
    throw thrown;
  }
}

function isGone(thrown: unknown): boolean {
  return thrown instanceof ConcordError && (thrown.code === "PRECONDITION_FAILED" || thrown.code === "OBJECT_UNKNOWN");
}

/** Within the budget of downloads and at the pace of its tenant and address: SlowDown before the first byte. Data that is damaged reaches the log, also behind the status line. */
async function* download(
  { bytes, lengthBytes }: FoundObject,
  call: S3Call,
  { downloads, sending, log }: Context,
): AsyncGenerator<Uint8Array, void, void> {
  const { requestId, bucket, key, tenant } = call;
  const pacing = sending.begin(call, lengthBytes);
  let end = pacing.end;
  try {
    const free = downloads.begin(tenant, lengthBytes);
    end = () => {
      free();
      pacing.end();
    };
    yield* pacing.chunks(bytes);
  } catch (thrown) {
    const { code, message } = toConcordError(thrown);
    if (code === "CORRUPT_DATA") log.error("an object cannot be read", { requestId, bucket, key, reason: message });
    throw thrown;
  } finally {
    end();
  }
}

/** The first bytes are read and verified before the answer begins: when they are damaged it is an error of its own, not a broken connection. */
async function begun(bytes: AsyncIterable<Uint8Array>): Promise<AsyncIterable<Uint8Array>> {
  const iterator = bytes[Symbol.asyncIterator]();
  let first: IteratorResult<Uint8Array> | undefined = await iterator.next();
  const next = (): Promise<IteratorResult<Uint8Array>> => {
    const ready = first;
    first = undefined;
    return ready === undefined ? iterator.next() : Promise.resolve(ready);
  };
  const stop = async (): Promise<IteratorResult<Uint8Array>> => (await iterator.return?.()) ?? { done: true, value: undefined };
  return { [Symbol.asyncIterator]: () => ({ next, return: stop }) };
}

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
    return {
      found: await store.getObject({
        ...request,
        range,
        precondition: { judge: request.precondition.judge, ifMatch: [whole.object.etag] },
      }),
      range,
    };
  } catch (thrown) {
    if (isGone(thrown)) return { found: whole, range: undefined };
    throw thrown;
  }
}

import { formatHttpDate, objectAttributesXml, readNumber, readPrecondition, S3Error } from "@concord/s3";
import type { S3Call } from "./call.ts";
import type { Operation } from "./context.ts";
import { customerKeyOf } from "./encryption.ts";
import { INT_MAX, pageSizeOf } from "./parameters.ts";
import { objectVersionHeader, xml } from "./responses.ts";

const KNOWN: ReadonlySet<string> = new Set(["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"]);

/** The requested attributes of an object, without its metadata. */
export const getObjectAttributes: Operation = async (call, context) => {
  const { store } = context;
  const { bucket, key, headers, judge } = call;
  const asked = attributesOf(call);
  const { page, marker, maxParts } = pageOf(call);
  const checksum = asked.has("Checksum") ? ("wanted" as const) : undefined;
  const precondition = { ...readPrecondition(headers), judge };
  const customerKey = customerKeyOf(call, context);
  const request = { bucket, key, precondition, versionId: call.query.one("versionId"), customerKey, checksum };
  const found = asked.has("ObjectParts")
    ? await store.headObjectParts({ ...request, ...page })
    : { object: await store.headObject(request), parts: undefined };
  const { object } = found;
  const only = <Value>(name: string, value: Value): Value | undefined => (asked.has(name) ? value : undefined);
  const answer = {
    etag: only("ETag", object.etag),
    checksum: only("Checksum", object.checksum),
    parts: found.parts && { ...found.parts, marker, maxParts },
    storageClass: only("StorageClass", "STANDARD" as const),
    sizeBytes: only("ObjectSize", object.sizeBytes),
  };
  return xml(objectAttributesXml(answer), [["last-modified", formatHttpDate(object.modifiedMs)], ...objectVersionHeader(object)]);
};

function attributesOf({ headers }: S3Call): ReadonlySet<string> {
  const names = headers.all("x-amz-object-attributes").flatMap((value) => value.split(",").map((name) => name.trim()));
  if (names.length === 0 || names.some((name) => !KNOWN.has(name)))
    throw new S3Error("InvalidArgument", "Invalid attribute name specified.");
  return new Set(names);
}

function pageOf(call: S3Call): { marker: number; maxParts: number; page: { after: number; limit: number } } {
  const maxParts = pageSizeOf(call, "x-amz-max-parts");
  const marker = readNumber(call.headers, "x-amz-part-number-marker", 0, [0, INT_MAX]);
  return { marker, maxParts, page: { after: marker, limit: maxParts } };
}

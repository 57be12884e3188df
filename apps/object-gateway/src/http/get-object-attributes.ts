import type { StoredObject } from "@concord/objects";
import { formatHttpDate, objectAttributesXml, readNumber, readPrecondition, S3Error } from "@concord/s3";
import type { Operation, S3Call } from "./call.ts";
import { INT_MAX, pageSizeOf } from "./parameters.ts";
import { objectVersionHeader, xml } from "./responses.ts";

const KNOWN: ReadonlySet<string> = new Set(["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"]);

/** The requested attributes of an object, without its metadata. */
export const getObjectAttributes: Operation = async (call, { store }) => {
  const { bucket, key, headers } = call;
  const asked = attributesOf(call);
  const object = await store.headObject({ bucket, key, precondition: readPrecondition(headers), versionId: call.query.one("versionId") });
  const only = <Value>(name: string, value: Value): Value | undefined => (asked.has(name) ? value : undefined);
  const answer = {
    etag: only("ETag", object.etag),
    checksum: only("Checksum", object.checksum),
    parts: only("ObjectParts", partsOf(call, object)),
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

/** Undefined for an object that was not uploaded in parts. */
function partsOf(call: S3Call, { content }: StoredObject): Parameters<typeof objectAttributesXml>[0]["parts"] {
  const maxParts = pageSizeOf(call, "x-amz-max-parts");
  const marker = readNumber(call.headers, "x-amz-part-number-marker", 0, [0, INT_MAX]);
  if (content.kind !== "parts") return undefined;
  const left = content.parts.filter(({ number }) => number > marker);
  const page = left.slice(0, maxParts);
  const parts = page.map(({ number, lengthBytes }) => ({ number, sizeBytes: lengthBytes, checksum: undefined }));
  return {
    total: content.parts.length,
    marker,
    next: page.length < left.length ? (page.at(-1)?.number ?? marker) : undefined,
    maxParts,
    parts,
  };
}

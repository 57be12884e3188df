// S3 operations of a multipart upload.
import type { CombineDigests, CopyDigest } from "@concord/objects";
import {
  combineDigests,
  completeMultipartUploadXml,
  copyDigest,
  copyPartXml,
  DEFAULT_CHECKSUM,
  initiateMultipartUploadXml,
  listPartsXml,
  listUploadsXml,
  readCompleteChecksum,
  readCompleteMultipartUpload,
  readNumber,
  readPrecondition,
  readUploadChecksum,
  S3Error,
  type Fields,
} from "@concord/s3";
import { guidToText } from "@concord/snowflake";
import { aclOfNew, withOwners } from "./acls.ts";
import { attributesOf } from "./attributes.ts";
import type { S3Call } from "./call.ts";
import type { Operation } from "./context.ts";
import { copying, copySourceOf } from "./copy-sources.ts";
import { readDocument, withUpload } from "./bodies.ts";
import { customerKeyOf, encryptionHeadersOf, encryptionOfNew } from "./encryption.ts";
import { listPage } from "./list-page.ts";
import { lockOfNew } from "./object-lock.ts";
import type { Take } from "./quotas.ts";
import { encodingOf, INT_MAX, pageSizeOf, partNumberOf, uploadIdFrom, uploadIdOf } from "./parameters.ts";
import { checkPartAlgorithm, uploadAlgorithm } from "./part-checksums.ts";
import { checksumHeaders, copySourceVersionHeader, empty, quoted, versionHeader, xml, type Header } from "./responses.ts";

/** Nothing is visible under the key before complete (OG14). */
export const createMultipartUpload: Operation = async (call, context) => {
  const { bucket, key, headers } = call;
  const checksum = readUploadChecksum(headers);
  const encryption = encryptionOfNew(call, context);
  const asked = { attributes: attributesOf(headers), acl: aclOfNew(call, context), lock: lockOfNew(call), checksum, encryption };
  const uploadId = guidToText(await context.store.createUpload({ bucket, key, ...asked }));
  const said: readonly Header[] =
    checksum === undefined
      ? []
      : [
          ["x-amz-checksum-algorithm", checksum.algorithm],
          ["x-amz-checksum-type", checksum.type],
        ];
  return xml(initiateMultipartUploadXml({ bucket, key, uploadId }), [...said, ...encryptionHeadersOf(encryption)]);
};

/** A part, also one that was sent before: the newer one counts (OG14, OGD11). */
export const uploadPart: Operation = async (call, context) => {
  const { bucket, key, query, headers } = call;
  const part = { bucket, key, number: partNumberOf(query), uploadId: uploadIdOf(query) };
  const algorithm = await uploadAlgorithm(context.store, part);
  checkPartAlgorithm(headers, algorithm);
  const customerKey = customerKeyOf(call, context);
  const stored = await withUpload(call, context, { algorithm: algorithm ?? DEFAULT_CHECKSUM, becomes: "part" }, (body) =>
    context.store.putPart({ ...part, body, customerKey }),
  );
  const checksum = checksumHeaders(stored.checksum).filter(([name]) => name !== "x-amz-checksum-type");
  return empty(200, [["etag", quoted(stored.etag)], ...checksum, ...encryptionHeadersOf(stored.encryption, customerKey)]);
};

/** A part made of another object's bytes, or of a range of them. */
export const uploadPartCopy: Operation = async (call, context) => {
  const { bucket, key, query } = call;
  const part = { bucket, key, number: partNumberOf(query), uploadId: uploadIdOf(query) };
  const source = await copySourceOf(call, context);
  const algorithm = await uploadAlgorithm(context.store, part);
  const customerKey = customerKeyOf(call, context);
  const copied = await copying(call, context, (take) => {
    const digest: CopyDigest = (_, bytes) => {
      take({ objects: 0, bytes });
      return copyDigest(algorithm ?? DEFAULT_CHECKSUM);
    };
    return context.store.copyPart({ ...part, source, digest, customerKey });
  });
  const encrypted = encryptionHeadersOf(copied.encryption, customerKey);
  return xml(copyPartXml(copied), [...copySourceVersionHeader(copied.sourceVersionId), ...encrypted]);
};

/** The parts that arrived: an interrupted client sends the rest (OG1). */
export const listParts: Operation = async (call, context) => {
  const { bucket, key, query, access, judge } = call;
  const uploadId = uploadIdOf(query);
  const encoding = encodingOf(call);
  const maxParts = pageSizeOf(call, "max-parts");
  const marker = readNumber(query, "part-number-marker", 0, [0, INT_MAX]);
  // An empty page is read as a page of one, to check that the upload exists.
  const page = { after: marker, limit: Math.max(1, maxParts), judge, customerKey: customerKeyOf(call, context) };
  const { initiatedMs: _, owner, ...found } = await context.store.listParts({ bucket, key, uploadId, ...page });
  const shown = withOwners(access, [{ owner }])[0]?.owner ?? access.owner;
  const listed = maxParts === 0 ? { ...found, parts: [], next: undefined } : found;
  return xml(
    listPartsXml({
      bucket,
      key,
      uploadId: guidToText(uploadId),
      owner: { id: shown },
      marker,
      maxParts,
      encoding,
      ...listed,
    }),
  );
};

const NONE = { uploads: [], commonPrefixes: [], next: undefined } as const;

/** Uploads that are open, by key and then by id. */
export const listMultipartUploads: Operation = async (call, { store }) => {
  const { bucket, query, access } = call;
  const page = listPage(call, "max-uploads");
  const after = markerOf(query);
  const { uploads, commonPrefixes, next } = page.limit === 0 ? NONE : await store.listUploads({ bucket, ...page, after });
  const textOf = (id: bigint | undefined): string => (id === undefined ? "" : guidToText(id));
  return xml(
    listUploadsXml({
      ...page,
      bucket,
      keyMarker: after?.key ?? "",
      uploadIdMarker: textOf(after?.uploadId),
      maxUploads: page.limit,
      owner: { id: access.owner },
      uploads: withOwners(access, uploads).map((upload) => ({ ...upload, uploadId: guidToText(upload.uploadId) })),
      commonPrefixes,
      next: next === undefined ? undefined : { key: next.key, uploadId: textOf(next.uploadId) },
    }),
  );
};

/** An id without a key means nothing, as S3 has it. */
function markerOf(query: Fields): { key: string; uploadId: bigint | undefined } | undefined {
  const key = query.one("key-marker") ?? "";
  if (key === "") return undefined;
  const id = query.one("upload-id-marker") ?? "";
  return { key, uploadId: id === "" ? undefined : uploadIdFrom(id) };
}

/** Assembles the object from its parts; a repetition within a day gets the same answer (OGD11). */
export const completeMultipartUpload: Operation = async (call, context) => {
  const { bucket, key, query, headers, judge } = call;
  const uploadId = uploadIdOf(query);
  const checksum = readCompleteChecksum(headers);
  const precondition = { ...readPrecondition(headers), judge };
  const customerKey = customerKeyOf(call, context);
  const document = await readDocument(call, context, { headerOf: "object" });
  const parts = readCompleteMultipartUpload(document).map((part) => ({ ...part, checksum: part.checksum?.value }));
  const stored = await context.quotas.duringLater(call.access.owner, (take) => {
    const combine = combining(headers, take);
    return context.store.completeUpload({ bucket, key, uploadId, parts, checksum, precondition, combine, customerKey });
  });
  const answer = completeMultipartUploadXml({ location: `${context.scheme}://${locationOf(call)}`, bucket, key, ...stored });
  // S3 says nothing here of a customer's key.
  const encrypted = stored.encryption?.kind === "customer" ? [] : encryptionHeadersOf(stored.encryption);
  return xml(answer, [...versionHeader(stored.versionId), ...encrypted]);
};

/** Where the object is, in the words of the request. */
function locationOf({ request, headers }: S3Call): string {
  return `${headers.one("host") ?? ""}${request.target.split("?")[0]!}`;
}

/** If the client announces the object's length, the parts must add up to it. They count in the quota from then on. */
function combining(headers: Fields, take: Take): CombineDigests {
  const sizeBytes = headers.has("x-amz-mp-object-size")
    ? readNumber(headers, "x-amz-mp-object-size", 0, [0, Number.MAX_SAFE_INTEGER])
    : undefined;
  let takenBytes: number | undefined;
  return (parts, checksum) => {
    const sumBytes = parts.reduce((sum, part) => sum + part.lengthBytes, 0);
    if (sizeBytes !== undefined && sizeBytes !== sumBytes) {
      throw new S3Error(
        "InvalidRequest",
        `The provided 'x-amz-mp-object-size' header value ${sizeBytes} does not match what was computed: ${sumBytes}`,
      );
    }
    // Asked again when the upload changed meanwhile.
    take({ objects: takenBytes === undefined ? 1 : 0, bytes: Math.max(0, sumBytes - (takenBytes ?? 0)) });
    takenBytes = Math.max(sumBytes, takenBytes ?? 0);
    return combineDigests(parts, checksum);
  };
}

/** Its parts become garbage; an upload that is being completed wins (OGD11). */
export const abortMultipartUpload: Operation = async ({ bucket, key, query, judge }, { store }) => {
  await store.abortUpload({ bucket, key, uploadId: uploadIdOf(query), judge });
  return empty(204);
};

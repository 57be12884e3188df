// S3 operations that write or remove objects.
import { REDIRECT_HEADER, type CopyDigest, type Deleted, type EncryptionRequest, type Stored } from "@concord/objects";
import {
  copyDigest,
  copyObjectXml,
  DEFAULT_CHECKSUM,
  deleteResultXml,
  readDelete,
  readDeleteCondition,
  readDirective,
  readPrecondition,
  readUploadChecksum,
  S3Error,
  toS3Error,
  type DeletedXml,
} from "@concord/s3";
import { DELETES_AT_ONCE } from "../limits.ts";
import { attributesOf } from "./attributes.ts";
import { decide, judgeOf } from "./access.ts";
import { aclOfNew } from "./acls.ts";
import type { S3Call } from "./call.ts";
import type { Context, Operation } from "./context.ts";
import { asksForEncryption, encryptionHeadersOf, encryptionOfNew, keyOf } from "./encryption.ts";
import { expirationHeader } from "./lifecycle.ts";
import { copying, copySourceOf } from "./copy-sources.ts";
import { bypassOf, lockOfNew } from "./object-lock.ts";
import { readDocument, withUpload } from "./bodies.ts";
import { checksumHeaders, copySourceVersionHeader, empty, quoted, versionHeader, xml, type Header } from "./responses.ts";

/** Data first, then the row (OG2); 200 only when both are durable. */
export const putObject: Operation = async (call, context) => {
  const { bucket, key, headers, judge } = call;
  const attributes = attributesOf(headers);
  const acl = aclOfNew(call, context);
  const lock = lockOfNew(call);
  const encryption = encryptionOfNew(call, context);
  const precondition = { ...readPrecondition(headers), judge };
  let sizeBytes: number | undefined;
  const stored = await withUpload(call, context, { algorithm: DEFAULT_CHECKSUM, becomes: "object" }, (body) => {
    sizeBytes = body.lengthBytes;
    return context.store.putObject({ bucket, key, body, attributes, acl, lock, precondition, encryption });
  });
  const { etag, checksum, versionId, modifiedMs } = stored;
  const expiration = sizeBytes === undefined ? [] : expirationHeader(call, context, { modifiedMs, sizeBytes, attributes });
  return empty(200, [
    ["etag", quoted(etag)],
    ...checksumHeaders(checksum),
    ...versionHeader(versionId),
    ...encryptedAs(stored, encryption),
    ...expiration,
  ]);
};

const encryptedAs = (stored: Stored, asked: EncryptionRequest | undefined): readonly Header[] =>
  encryptionHeadersOf(stored.encryption, keyOf(asked));

const ONTO_ITSELF = "This copy request is illegal because it is trying to copy an object to itself without changing the object's metadata.";

/** Copies the bytes (OGD12); attributes and tags are the source's unless they are to be replaced. */
export const copyObject: Operation = async (call, context) => {
  const { bucket, key, headers, judge } = call;
  const acl = aclOfNew(call, context);
  const lock = lockOfNew(call);
  const encryption = encryptionOfNew(call, context);
  const source = await copySourceOf(call, context);
  const given = attributesOf(headers);
  const attributes = readDirective(headers, "metadata") === "REPLACE" ? given : undefined;
  const tags = readDirective(headers, "tagging") === "REPLACE" ? given.tags : await tagsToCopy(call, context, source);
  const isOntoItself = source.bucket === bucket && source.key === key && source.versionId === undefined;
  const redirect = given.headers[REDIRECT_HEADER];
  if (isOntoItself && attributes === undefined && redirect === undefined && !asksForEncryption(call))
    throw new S3Error("InvalidRequest", ONTO_ITSELF);
  const precondition = { ...readPrecondition(headers), judge };
  const asked = readUploadChecksum(headers)?.algorithm;
  const copy = { source, bucket, key, attributes, redirect, tags, acl, lock, precondition, encryption };
  const copied = await copying(call, context, (take) => {
    const digest: CopyDigest = (algorithm, bytes) => {
      take({ objects: 1, bytes });
      return copyDigest(asked ?? algorithm ?? DEFAULT_CHECKSUM);
    };
    return context.store.copyObject({ ...copy, digest });
  });
  return xml(copyObjectXml(copied), [
    ...versionHeader(copied.versionId),
    ...copySourceVersionHeader(copied.sourceVersionId),
    ...encryptedAs(copied, encryption),
  ]);
};

/** Undefined: those of the source. AccessDenied when it has tags that the caller may not read, or not set on the copy. */
async function tagsToCopy(
  call: S3Call,
  { store }: Context,
  source: Awaited<ReturnType<typeof copySourceOf>>,
): Promise<Readonly<Record<string, string>> | undefined> {
  const maySet = decide(call.access, call, "s3:PutObjectTagging", call.key, { object: { kind: "new" } }).kind === "allowed";
  if (maySet && source.mayReadTags(undefined)) return undefined;
  const { bucket, key, versionId, precondition, customerKey } = source;
  const found = await store.headObject({ bucket, key, precondition: { judge: precondition.judge }, versionId, customerKey });
  const { tags } = found.attributes;
  if (Object.keys(tags).length > 0 && !(maySet && source.mayReadTags(found))) throw new S3Error("AccessDenied");
  // Those that were judged, also when the source gets others meanwhile.
  return tags;
}

/** Success also when there was none, unless the condition asks for one. Without a version a versioned bucket gets a delete marker. */
export const deleteObject: Operation = async (call, { store }) => {
  const { bucket, key, headers, query, judge } = call;
  const versionId = query.one("versionId");
  const condition = { ...readDeleteCondition(headers), judge };
  const deleted = await store.deleteObject({ bucket, key, condition, versionId, bypass: bypassOf(call, key, versionId) });
  return empty(204, [...versionHeader(deleted.versionId), ...(deleted.isMarker ? [["x-amz-delete-marker", "true"] as const] : [])]);
};

/** Deletes up to a thousand keys, each on its own and judged on its own; the answer lists those that failed. */
export const deleteObjects: Operation = async (call, context) => {
  const { bucket, access } = call;
  // Without a policy the same is said of every key: refused before the body.
  if (access.policy === undefined && decide(access, call, "s3:DeleteObject", undefined).kind === "denied")
    throw new S3Error("AccessDenied");
  const { objects, quiet } = readDelete(await readDocument(call, context, { integrity: "required" }));
  const deleted: DeletedXml[] = [];
  const failed: { key: string; versionId: string | undefined; error: S3Error }[] = [];
  const remove = async ({ key, condition, versionId }: (typeof objects)[number]): Promise<Deleted> => {
    const judge = judgeOf(access, call, [versionId === undefined ? "s3:DeleteObject" : "s3:DeleteObjectVersion"], key, versionId);
    const bypass = bypassOf(call, key, versionId);
    return await context.store.deleteObject({ bucket, key, condition: { ...condition, judge }, versionId, bypass });
  };
  const deleteOne = (one: (typeof objects)[number]): Promise<unknown> => {
    const { key, versionId } = one;
    return remove(one).then(
      (done) => deleted.push({ key, versionId, markerId: done.isMarker ? done.versionId : undefined }),
      (thrown: unknown) => {
        const error = toS3Error(thrown);
        if (error.status === 500) context.log.error("a delete of many failed", { requestId: call.requestId, reason: String(thrown) });
        return failed.push({ key, versionId, error });
      },
    );
  };
  for (let at = 0; at < objects.length; at += DELETES_AT_ONCE) await Promise.all(objects.slice(at, at + DELETES_AT_ONCE).map(deleteOne));
  return xml(deleteResultXml({ quiet, deleted, failed }));
};

// S3 operations that write or remove objects.
import type { CopyDigest, Deleted } from "@concord/objects";
import {
  copyDigest,
  copyObjectXml,
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
import { decide, demand } from "./access.ts";
import type { Context, Operation, S3Call } from "./call.ts";
import { copying, copySourceOf } from "./copy-sources.ts";
import { readDocument, withUpload } from "./bodies.ts";
import { checksumHeaders, copySourceVersionHeader, empty, quoted, versionHeader, xml } from "./responses.ts";

/** Data first, then the row (OG2); 200 only when both are durable. */
export const putObject: Operation = async (call, context) => {
  const { bucket, key, headers } = call;
  const attributes = attributesOf(headers);
  const precondition = readPrecondition(headers);
  const stored = await withUpload(call, context, {}, (body) => context.store.putObject({ bucket, key, body, attributes, precondition }));
  return empty(200, [["etag", quoted(stored.etag)], ...checksumHeaders(stored.checksum), ...versionHeader(stored.versionId)]);
};

const ONTO_ITSELF = "This copy request is illegal because it is trying to copy an object to itself without changing the object's metadata.";

/** Copies the bytes (OGD12); attributes and tags are the source's unless they are to be replaced. */
export const copyObject: Operation = async (call, context) => {
  const { bucket, key, headers } = call;
  const source = await copySourceOf(call, context);
  const given = attributesOf(headers);
  const attributes = readDirective(headers, "metadata") === "REPLACE" ? given : undefined;
  const tags = readDirective(headers, "tagging") === "REPLACE" ? given.tags : await tagsToCopy(call, context, source);
  const isOntoItself = source.bucket === bucket && source.key === key && source.versionId === undefined;
  if (isOntoItself && attributes === undefined) throw new S3Error("InvalidRequest", ONTO_ITSELF);
  const precondition = readPrecondition(headers);
  const asked = readUploadChecksum(headers)?.algorithm;
  const digest: CopyDigest = (algorithm) => copyDigest(asked ?? algorithm);
  const copy = { source, bucket, key, attributes, tags, precondition, digest };
  const copied = await copying(call, context, () => context.store.copyObject(copy));
  return xml(copyObjectXml(copied), [...versionHeader(copied.versionId), ...copySourceVersionHeader(copied.sourceVersionId)]);
};

/** Undefined: those of the source. AccessDenied when it has tags that the caller may not read, or not set on the copy. */
async function tagsToCopy(
  call: S3Call,
  { store }: Context,
  source: Awaited<ReturnType<typeof copySourceOf>>,
): Promise<Readonly<Record<string, string>> | undefined> {
  const maySet = decide(call.access, call, "s3:PutObjectTagging", call.key).kind === "allowed";
  if (source.mayReadTags && maySet) return undefined;
  const { bucket, key, versionId } = source;
  const { attributes } = await store.headObject({ bucket, key, precondition: {}, versionId });
  if (Object.keys(attributes.tags).length > 0) throw new S3Error("AccessDenied");
  // It had none: the copy gets none, also when the source gets some meanwhile.
  return {};
}

/** Success also when there was none, unless the condition asks for one. Without a version a versioned bucket gets a delete marker. */
export const deleteObject: Operation = async ({ bucket, key, headers, query }, { store }) => {
  const versionId = query.one("versionId");
  const deleted = await store.deleteObject({ bucket, key, condition: readDeleteCondition(headers), versionId });
  return empty(204, [...versionHeader(deleted.versionId), ...(deleted.isMarker ? [["x-amz-delete-marker", "true"] as const] : [])]);
};

/** Deletes up to a thousand keys, each on its own and judged on its own; the answer lists those that failed. */
export const deleteObjects: Operation = async (call, context) => {
  const { bucket } = call;
  // Without a policy no key of another tenant can be allowed: refused before the body.
  if (call.access.policy === undefined) demand(call.access, call, "s3:DeleteObject", undefined);
  const { objects, quiet } = readDelete(await readDocument(call, context, { integrity: "required" }));
  const deleted: DeletedXml[] = [];
  const failed: { key: string; versionId: string | undefined; error: S3Error }[] = [];
  const remove = async ({ key, condition, versionId }: (typeof objects)[number]): Promise<Deleted> => {
    demand(call.access, call, versionId === undefined ? "s3:DeleteObject" : "s3:DeleteObjectVersion", key, versionId);
    return await context.store.deleteObject({ bucket, key, condition, versionId });
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

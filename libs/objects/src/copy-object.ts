import { assert, ConcordError } from "@concord/runtime";
import type { Copied, CopyDigest, CopySource, FoundObject, ObjectStore, UploadBody } from "./api.ts";
import type { ObjectStoreContext } from "./context.ts";
import { getObject } from "./get-object.ts";
import { checkCopyCondition } from "./preconditions.ts";
import { putObject } from "./put-object.ts";
import type { ObjectAttributes } from "./rows.ts";
import { versionIdOf } from "./versions.ts";

/** Where a website sends who asks for the object: an attribute of that one object, so a copy does not inherit it. */
export const REDIRECT_HEADER = "x-amz-website-redirect-location";

/** A copy has blobs of its own: no two objects share one (OGD12). */
export async function copyObject(context: ObjectStoreContext, request: Parameters<ObjectStore["copyObject"]>[0]): Promise<Copied> {
  const found = await openCopySource(context, request.source);
  const { attributes } = found.object;
  const copied = request.attributes ?? withRedirect(attributes, request.redirect);
  const stored = await putObject(context, {
    bucket: request.bucket,
    key: request.key,
    body: copyBody(found, request.digest),
    attributes: { ...copied, tags: request.tags ?? attributes.tags },
    acl: request.acl,
    lock: request.lock,
    precondition: request.precondition,
    by: "copy",
    encryption: request.encryption,
  });
  return { ...stored, ...sourceVersion(found) };
}

function withRedirect({ headers, ...others }: ObjectAttributes, redirect: string | undefined): ObjectAttributes {
  const { [REDIRECT_HEADER]: _, ...inherited } = headers;
  const own = redirect === undefined ? inherited : { ...inherited, [REDIRECT_HEADER]: redirect };
  assert(own[REDIRECT_HEADER] === redirect, "a copy sends visitors where its own request says");
  return { ...others, headers: own };
}

/** Which version of the source was copied. */
export function sourceVersion({ object: { version } }: FoundObject): Pick<Copied, "sourceVersionId"> {
  return version === undefined ? {} : { sourceVersionId: versionIdOf(version) };
}

/** The source as it is now, if its conditions hold. */
export async function openCopySource(context: ObjectStoreContext, source: CopySource): Promise<FoundObject> {
  const { bucket, key, range, precondition, versionId, customerKey } = source;
  const found = await getObject(context, { bucket, key, range, precondition: {}, part: undefined, versionId, customerKey });
  checkCopyCondition(precondition, found.object);
  const { sizeBytes } = found.object;
  if (range?.last !== undefined && range.last >= sizeBytes) {
    throw new ConcordError("RANGE_UNSATISFIABLE", "the source ends before the range does", { metadata: { sizeBytes: String(sizeBytes) } });
  }
  const isWhole = range?.first === undefined || range.last === undefined || found.lengthBytes === range.last - range.first + 1;
  assert(isWhole, "a copy of a range has all of it");
  return found;
}

/** Reads one object as the body of another, and digests it on the way. */
export function copyBody(found: FoundObject, makeDigest: CopyDigest): UploadBody {
  const digest = makeDigest(found.object.checksum?.algorithm, found.lengthBytes);
  let digestedBytes = 0;
  async function* digested(): AsyncGenerator<Uint8Array, void, undefined> {
    for await (const chunk of found.bytes) {
      digest.update(chunk);
      digestedBytes += chunk.length;
      yield chunk;
    }
  }
  const finish = (): ReturnType<UploadBody["finish"]> => {
    assert(digestedBytes === found.lengthBytes, "a copy is digested to its end");
    return digest.finish();
  };
  return { lengthBytes: found.lengthBytes, chunks: digested(), finish };
}

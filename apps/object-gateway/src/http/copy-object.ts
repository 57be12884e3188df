import type { CopyDigest } from "@concord/objects";
import { copyDigest, copyObjectXml, readDirective, readPrecondition, readUploadChecksum, S3Error } from "@concord/s3";
import { attributesOf } from "./attributes.ts";
import type { Operation } from "./call.ts";
import { copying, copySourceOf } from "./copy-sources.ts";
import { xml } from "./responses.ts";

const ONTO_ITSELF = "This copy request is illegal because it is trying to copy an object to itself without changing the object's metadata.";

/** Copies the bytes (OGD12); attributes and tags are the source's unless they are to be replaced. */
export const copyObject: Operation = async (call, context) => {
  const { bucket, key, headers } = call;
  const source = await copySourceOf(call, context);
  const given = attributesOf(headers);
  const attributes = readDirective(headers, "metadata") === "REPLACE" ? given : undefined;
  const tags = readDirective(headers, "tagging") === "REPLACE" ? given.tags : undefined;
  if (source.bucket === bucket && source.key === key && attributes === undefined) throw new S3Error("InvalidRequest", ONTO_ITSELF);
  const precondition = readPrecondition(headers);
  const asked = readUploadChecksum(headers)?.algorithm;
  const digest: CopyDigest = (algorithm) => copyDigest(asked ?? algorithm);
  const copy = { source, bucket, key, attributes, tags, precondition, digest };
  return xml(copyObjectXml(await copying(context, () => context.store.copyObject(copy))));
};

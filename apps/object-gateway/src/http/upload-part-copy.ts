import { copyDigest, copyPartXml } from "@concord/s3";
import type { Operation } from "./call.ts";
import { copying, copySourceOf } from "./copy-sources.ts";
import { partNumberOf, uploadIdOf } from "./parameters.ts";
import { uploadAlgorithm } from "./part-checksums.ts";
import { xml } from "./responses.ts";

/** A part made of another object's bytes, or of a range of them. */
export const uploadPartCopy: Operation = async (call, context) => {
  const { bucket, key, query } = call;
  const part = { bucket, key, number: partNumberOf(query), uploadId: uploadIdOf(query) };
  const source = await copySourceOf(call, context);
  const algorithm = await uploadAlgorithm(context.store, part);
  const copy = { ...part, source, digest: () => copyDigest(algorithm) };
  return xml(copyPartXml(await copying(context, () => context.store.copyPart(copy))));
};

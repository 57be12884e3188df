import { copyDigest, copyPartXml } from "@concord/s3";
import type { Operation } from "./call.ts";
import { copying, copySourceOf } from "./copy-sources.ts";
import { partNumberOf, uploadIdOf } from "./parameters.ts";
import { uploadAlgorithm } from "./part-checksums.ts";
import { xml } from "./responses.ts";

/** A part made of another object's bytes, or of a range of them. */
export const uploadPartCopy: Operation = async (call, rooms) => {
  const { bucket, key, query } = call;
  const part = { bucket, key, number: partNumberOf(query), uploadId: uploadIdOf(query) };
  const source = await copySourceOf(call, rooms);
  const algorithm = await uploadAlgorithm(rooms.store, part);
  const copy = { ...part, source, digest: () => copyDigest(algorithm) };
  return xml(copyPartXml(await copying(rooms, () => rooms.store.copyPart(copy))));
};

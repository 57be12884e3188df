import { listPartsXml, readNumber } from "@concord/s3";
import { guidToText } from "@concord/snowflake";
import type { Operation } from "./call.ts";
import { encodingOf, INT_MAX, pageSizeOf, uploadIdOf } from "./parameters.ts";
import { xml } from "./responses.ts";

/** What arrived: a client that was broken off sends the rest (OG1). */
export const listParts: Operation = async (call, { store }) => {
  const { bucket, key, query, tenant } = call;
  const uploadId = uploadIdOf(query);
  const encoding = encodingOf(call);
  const maxParts = pageSizeOf(call, "max-parts");
  const marker = readNumber(query, "part-number-marker", 0, [0, INT_MAX]);
  // A page of none is asked for as one of one: that there is such an upload must be seen.
  const { initiatedMs: _, ...found } = await store.listParts({ bucket, key, uploadId, after: marker, limit: Math.max(1, maxParts) });
  const listed = maxParts === 0 ? { ...found, parts: [], next: undefined } : found;
  return xml(listPartsXml({ bucket, key, uploadId: guidToText(uploadId), owner: { id: tenant }, marker, maxParts, encoding, ...listed }));
};

import type { Operation } from "./call.ts";
import { partNumberOf, uploadIdOf } from "./parameters.ts";
import { checkPartAlgorithm, uploadAlgorithm } from "./part-checksums.ts";
import { checksumHeaders, empty, quoted } from "./responses.ts";
import { withUpload } from "./uploads.ts";

/** A part, also one that was sent before: the newer one counts (OG14, OGD11). */
export const uploadPart: Operation = async (call, context) => {
  const { bucket, key, query, headers } = call;
  const part = { bucket, key, number: partNumberOf(query), uploadId: uploadIdOf(query) };
  const algorithm = await uploadAlgorithm(context.store, part);
  checkPartAlgorithm(headers, algorithm);
  const stored = await withUpload(call, context, { algorithm }, (body) => context.store.putPart({ ...part, body }));
  const checksum = checksumHeaders(stored.checksum).filter(([name]) => name !== "x-amz-checksum-type");
  return empty(200, [["etag", quoted(stored.etag)], ...checksum]);
};

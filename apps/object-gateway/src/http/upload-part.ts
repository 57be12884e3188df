import type { Operation } from "./call.ts";
import { partNumberOf, uploadIdOf } from "./parameters.ts";
import { checksumHeaders, empty, quoted } from "./responses.ts";
import { withUpload } from "./uploads.ts";

/** A part, also one that was sent before: the newer one counts (OG14, OGD11). */
export const uploadPart: Operation = async (call, rooms) => {
  const { bucket, key, query } = call;
  const number = partNumberOf(query);
  const uploadId = uploadIdOf(query);
  const stored = await withUpload(call, rooms, {}, (body) => rooms.store.putPart({ bucket, key, uploadId, number, body }));
  return empty(200, [
    ["etag", quoted(stored.etag)],
    ...checksumHeaders(stored.checksum).filter(([name]) => name !== "x-amz-checksum-type"),
  ]);
};

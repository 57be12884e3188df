import type { CombineDigests } from "@concord/objects";
import {
  combineDigests,
  completeMultipartUploadXml,
  readCompleteChecksum,
  readCompleteMultipartUpload,
  readNumber,
  readPrecondition,
  S3Error,
  type Fields,
} from "@concord/s3";
import type { Operation, S3Call } from "./call.ts";
import { readDocument } from "./documents.ts";
import { uploadIdOf } from "./parameters.ts";
import { xml } from "./responses.ts";

/** Makes the object of its parts; answered the same way when it is asked for again within a day (OGD11). */
export const completeMultipartUpload: Operation = async (call, context) => {
  const { bucket, key, query, headers } = call;
  const uploadId = uploadIdOf(query);
  const checksum = readCompleteChecksum(headers);
  const precondition = readPrecondition(headers);
  const combine = combining(headers);
  const parts = readCompleteMultipartUpload(await readDocument(call, context)).map((part) => ({ ...part, checksum: part.checksum?.value }));
  const stored = await context.store.completeUpload({ bucket, key, uploadId, parts, checksum, precondition, combine });
  return xml(completeMultipartUploadXml({ location: `${context.scheme}://${locationOf(call)}`, bucket, key, ...stored }));
};

/** Where the object is, in the words of the request. */
function locationOf({ request, headers }: S3Call): string {
  return `${headers.one("host") ?? ""}${request.target.split("?")[0]!}`;
}

/** Where the client says how long the object is, its parts must be that together. */
function combining(headers: Fields): CombineDigests {
  const sizeBytes = headers.has("x-amz-mp-object-size")
    ? readNumber(headers, "x-amz-mp-object-size", 0, [0, Number.MAX_SAFE_INTEGER])
    : undefined;
  return (parts, checksum) => {
    const sumBytes = parts.reduce((sum, part) => sum + part.lengthBytes, 0);
    if (sizeBytes !== undefined && sizeBytes !== sumBytes) {
      throw new S3Error(
        "InvalidRequest",
        `The provided 'x-amz-mp-object-size' header value ${sizeBytes} does not match what was computed: ${sumBytes}`,
      );
    }
    return combineDigests(parts, checksum);
  };
}

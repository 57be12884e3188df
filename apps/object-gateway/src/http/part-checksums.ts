// Parts are checked with their upload's algorithm: the object's checksum is made of theirs.
import type { ObjectStore } from "@concord/objects";
import { CHECKSUM_ALGORITHMS, checksumHeader, S3Error, type ChecksumAlgorithm, type Fields } from "@concord/s3";

/** Undefined: the upload was created without one. NoSuchUpload, before a byte of the part is read. */
export async function uploadAlgorithm(
  store: ObjectStore,
  upload: { readonly bucket: string; readonly key: string; readonly uploadId: bigint },
): Promise<ChecksumAlgorithm | undefined> {
  const { checksum } = await store.listParts({ ...upload, after: 0, limit: 1 });
  return checksum?.algorithm;
}

/** InvalidRequest when the part comes with the checksum of another algorithm. An upload without an algorithm takes any, and adds the default where there is none. */
export function checkPartAlgorithm(headers: Fields, expected: ChecksumAlgorithm | undefined): void {
  if (expected === undefined) return;
  const trailers = headers.all("x-amz-trailer").flatMap((value) => value.split(",").map((name) => name.trim().toLowerCase()));
  for (const sent of CHECKSUM_ALGORITHMS) {
    const name = checksumHeader(sent);
    if (sent === expected || (!headers.has(name) && !trailers.includes(name))) continue;
    const types = `expected checksum Type: ${expected.toLowerCase()}, actual checksum Type: ${sent.toLowerCase()}`;
    throw new S3Error("InvalidRequest", `Checksum Type mismatch occurred, ${types}`);
  }
}

// What a completed multipart object has instead of an MD5: the MD5 of its parts' MD5s, and a checksum made of the parts' checksums.
import { createHash } from "node:crypto";
import { combineCrc32, combineCrc32c, combineCrc64nvme } from "@concord/checksums";
import { assert, ConcordError } from "@concord/runtime";
import { decodeBase64, encodeBase64 } from "../encoding.ts";
import type { ChecksumAlgorithm, StoredChecksum, UploadChecksum } from "../types.ts";
import { CHECKSUM_BYTES, checksumStream } from "./digests.ts";

export interface PartDigest {
  readonly md5Hex: string;
  readonly lengthBytes: number;
  readonly checksum: StoredChecksum | undefined;
}

/** Whether the checksum of the whole can be made from those of the parts (S3 allows FULL_OBJECT for CRCs only). */
export function allowsType({ algorithm, type }: UploadChecksum): boolean {
  return type === "FULL_OBJECT" ? isCrc(algorithm) : algorithm !== "CRC64NVME";
}

const isCrc = (algorithm: ChecksumAlgorithm): boolean => algorithm === "CRC32" || algorithm === "CRC32C" || algorithm === "CRC64NVME";

/**
 * CombineDigests of the object store. PART_INVALID when a part has no checksum of the upload's algorithm. An upload without an algorithm gets the
 * checksum that its parts allow: of the whole object where all have the same CRC, else none.
 */
export function combineDigests(
  parts: readonly PartDigest[],
  asked: UploadChecksum | undefined,
): { readonly etag: string; readonly checksum: StoredChecksum | undefined } {
  assert(parts.length > 0, "an object has at least one part");
  const md5 = createHash("md5");
  for (const part of parts) md5.update(part.md5Hex, "hex");
  const checksum = asked ?? commonCrc(parts);
  return {
    etag: `${md5.digest("hex")}-${parts.length}`,
    checksum: checksum === undefined ? undefined : { ...checksum, value: combinedValue(parts, checksum) },
  };
}

function commonCrc(parts: readonly PartDigest[]): UploadChecksum | undefined {
  const algorithm = parts[0]!.checksum?.algorithm;
  if (algorithm === undefined || !isCrc(algorithm)) return undefined;
  return parts.every(({ checksum }) => checksum?.algorithm === algorithm) ? { algorithm, type: "FULL_OBJECT" } : undefined;
}

function combinedValue(parts: readonly PartDigest[], checksum: UploadChecksum): string {
  assert(allowsType(checksum), `${checksum.algorithm} is never ${checksum.type}`);
  const values = parts.map((part, i) => partBytes(part, i, checksum.algorithm));
  if (checksum.type === "FULL_OBJECT") return encodeBase64(wholeCrc(parts, values, checksum.algorithm));
  const stream = checksumStream(checksum.algorithm);
  for (const value of values) stream.update(value);
  return `${encodeBase64(stream.digest())}-${parts.length}`;
}

function partBytes({ checksum }: PartDigest, index: number, algorithm: ChecksumAlgorithm): Uint8Array {
  const bytes = checksum?.algorithm === algorithm ? decodeBase64(checksum.value, CHECKSUM_BYTES[algorithm]) : undefined;
  if (bytes === undefined) throw new ConcordError("PART_INVALID", `entry ${index + 1} of the part list has no ${algorithm} checksum`);
  return bytes;
}

function wholeCrc(parts: readonly PartDigest[], values: readonly Uint8Array[], algorithm: ChecksumAlgorithm): Uint8Array {
  const view = (bytes: Uint8Array): DataView => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const result = Uint8Array.from(values[0]!);
  const whole = view(result);
  for (let i = 1; i < parts.length; i += 1) {
    const [part, length] = [view(values[i]!), parts[i]!.lengthBytes];
    if (algorithm === "CRC64NVME") whole.setBigUint64(0, combineCrc64nvme(whole.getBigUint64(0), part.getBigUint64(0), length));
    else {
      const combine = algorithm === "CRC32" ? combineCrc32 : combineCrc32c;
      whole.setUint32(0, combine(whole.getUint32(0), part.getUint32(0), length));
    }
  }
  return result;
}

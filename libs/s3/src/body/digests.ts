// The digests of S3 while bytes pass.
import { createHash } from "node:crypto";
import { crcStream } from "@concord/checksums";
import { unreachable } from "@concord/runtime";
import { encodeBase64 } from "../encoding.ts";
import type { ChecksumAlgorithm, Digests } from "../types.ts";

export interface DigestStream {
  update(bytes: Uint8Array): void;
  /** Once, after the last byte. */
  digest(): Uint8Array;
}

export const CHECKSUM_ALGORITHMS = ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"] as const satisfies readonly ChecksumAlgorithm[];

export const CHECKSUM_BYTES: Readonly<Record<ChecksumAlgorithm, number>> = { CRC32: 4, CRC32C: 4, CRC64NVME: 8, SHA1: 20, SHA256: 32 };

/** Added to uploads that bring no checksum, as S3 does since 2024-12. */
export const DEFAULT_CHECKSUM: ChecksumAlgorithm = "CRC64NVME";

/** "CRC32C" for "crc32c": names in headers and in x-amz-checksum-algorithm have either case. */
export function checksumAlgorithm(name: string): ChecksumAlgorithm | undefined {
  return CHECKSUM_ALGORITHMS.find((algorithm) => algorithm === name.toUpperCase());
}

/** "x-amz-checksum-crc32c" */
export function checksumHeader(algorithm: ChecksumAlgorithm): string {
  return `x-amz-checksum-${algorithm.toLowerCase()}`;
}

export function checksumStream(algorithm: ChecksumAlgorithm): DigestStream {
  switch (algorithm) {
    case "CRC32":
    case "CRC32C":
    case "CRC64NVME":
      return crcStream(algorithm);
    case "SHA1":
      return createHash("sha1");
    case "SHA256":
      return createHash("sha256");
    default:
      return unreachable(algorithm);
  }
}

/** The digests of bytes we copy ourselves (CopyDigest of the object store). */
export function copyDigest(algorithm: ChecksumAlgorithm | undefined): { update(bytes: Uint8Array): void; finish(): Digests } {
  const md5 = createHash("md5");
  const checksum = algorithm === undefined ? undefined : checksumStream(algorithm);
  return {
    update(bytes) {
      md5.update(bytes);
      checksum?.update(bytes);
    },
    finish: () => ({
      md5Hex: md5.digest("hex"),
      checksum:
        algorithm === undefined || checksum === undefined
          ? undefined
          : { algorithm, type: "FULL_OBJECT", value: encodeBase64(checksum.digest()) },
    }),
  };
}

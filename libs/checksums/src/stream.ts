import { unreachable } from "@concord/runtime";
import { crc32, crc32c, Crc64Nvme } from "./crc.ts";

export type CrcAlgorithm = "CRC32" | "CRC32C" | "CRC64NVME";

/** A CRC while bytes pass. `digest` may be asked at any time and changes nothing. */
export interface CrcStream {
  update(bytes: Uint8Array): void;
  /** Big-endian, 4 or 8 bytes: what S3 sends in base64. */
  digest(): Uint8Array;
}

export function crcStream(algorithm: CrcAlgorithm): CrcStream {
  switch (algorithm) {
    case "CRC32":
      return narrowStream(crc32);
    case "CRC32C":
      return narrowStream(crc32c);
    case "CRC64NVME":
      return new Crc64Nvme();
    default:
      return unreachable(algorithm);
  }
}

function narrowStream(checksum: typeof crc32): CrcStream {
  let value = 0;
  return { update: (bytes) => void (value = checksum(bytes, value)), digest: () => narrowBytes(value) };
}

function narrowBytes(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value);
  return bytes;
}

import type { Checksum } from "@concord/runtime";
import { ByteReader, corrupt } from "./byte-reader.ts";
import { ByteWriter } from "./byte-writer.ts";

/**
 * A stored record: format version (1 byte), checksum of the body (4 bytes), body. `openRecord` refuses what was cut, flipped or
 * written by a newer version, as CORRUPT_DATA; the caller quarantines such a record (style rule 10).
 */
export function sealRecord(version: number, body: Uint8Array, checksum: Checksum): Uint8Array {
  return new ByteWriter(body.length + 5)
    .u8(version)
    .u32(checksum(body) >>> 0)
    .raw(body)
    .finish();
}

export function openRecord(bytes: Uint8Array, newestVersion: number, checksum: Checksum): { version: number; body: Uint8Array } {
  const reader = new ByteReader(bytes);
  const version = reader.u8();
  if (version < 1 || version > newestVersion) throw corrupt(`format version ${version}, known are 1 to ${newestVersion}`);
  const expected = reader.u32();
  const body = reader.raw(reader.remaining);
  if (checksum(body) >>> 0 !== expected) throw corrupt("the checksum does not match");
  return { version, body };
}

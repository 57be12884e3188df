import type { Checksum } from "@concord/runtime";
import { ByteReader, corrupt } from "./byte-reader.ts";
import { ByteWriter } from "./byte-writer.ts";

/** Format version and checksum. */
const HEADER_BYTES = 5;

/**
 * A stored record: format version (1 byte), checksum of the body (4 bytes), body. `openRecord` refuses what was cut, flipped or
 * written by a newer version, as CORRUPT_DATA; the caller quarantines such a record (style rule 10).
 */
export function sealRecord(version: number, body: ByteWriter | Uint8Array, checksum: Checksum): Uint8Array {
  const written = body instanceof ByteWriter ? body : new ByteWriter(body.length).raw(body);
  const record = written.finishBehind(HEADER_BYTES);
  const sum = checksum(record.subarray(HEADER_BYTES));
  record[0] = version;
  for (let at = HEADER_BYTES - 1, rest = sum; at > 0; at -= 1, rest >>>= 8) record[at] = rest;
  return record;
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

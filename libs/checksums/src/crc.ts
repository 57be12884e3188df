// The CRCs of the S3 protocol and of our own files, each from the fastest implementation there is here: node's zlib, a native add-on, WASM.
import { crc32 as zlibCrc32 } from "node:zlib";
import nodeRs from "@node-rs/crc32";
import { createCRC64 } from "hash-wasm";
import { assert, type Checksum } from "@concord/runtime";

/** Bytes from which the add-on is faster than zlib: its call takes longer, its bytes a fifth of the time. */
const NATIVE_BYTES_MIN = 256;

/** CRC-32 (IEEE), unsigned; with `previous` it goes on from earlier bytes. */
export const crc32: Checksum = (bytes, previous = 0) =>
  bytes.length < NATIVE_BYTES_MIN ? zlibCrc32(bytes, previous) : nodeRs.crc32(bytes, previous) >>> 0;

/** CRC-32C (Castagnoli), unsigned; with `previous` it goes on from earlier bytes. */
export const crc32c: Checksum = (bytes, previous = 0) => nodeRs.crc32c(bytes, previous) >>> 0;

/** Reflected polynomial of CRC-64/NVME. */
const NVME_POLYNOMIAL = "9a6c9329ac4bc9b5";
/** One instance for all: every call loads its own state, computes and takes it out again, without an await in between (I2). */
const wasm = (await createCRC64(NVME_POLYNOMIAL)).init();
const INITIAL_STATE = wasm.save();
/** A saved state is 4 bytes that name the WASM build and the CRC, little-endian. */
const STATE_PREFIX_BYTES = 4;
assert(INITIAL_STATE.length === STATE_PREFIX_BYTES + 8, "the CRC-64 state is 4 + 8 bytes");

/** CRC-64/NVME, unsigned; with `previous` it goes on from earlier bytes. */
export function crc64nvme(bytes: Uint8Array, previous = 0n): bigint {
  const state = INITIAL_STATE.slice();
  new DataView(state.buffer).setBigUint64(STATE_PREFIX_BYTES, previous, true);
  const after = wasm.load(state).update(bytes).save();
  return new DataView(after.buffer).getBigUint64(STATE_PREFIX_BYTES, true);
}

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

/** CRC-64/NVME while bytes pass. Its value stays in the form in which the WASM takes it: numbers of 64 bits cost more than a short chunk. */
export class Crc64Nvme {
  #state = INITIAL_STATE;

  update(bytes: Uint8Array): void {
    this.#state = wasm.load(this.#state).update(bytes).save();
  }

  /** Big-endian. */
  digest(): Uint8Array {
    return this.#state.slice(STATE_PREFIX_BYTES).reverse();
  }
}

/** CRC-64/NVME, unsigned. */
export function crc64nvme(bytes: Uint8Array): bigint {
  const crc = new Crc64Nvme();
  crc.update(bytes);
  return new DataView(crc.digest().buffer).getBigUint64(0);
}

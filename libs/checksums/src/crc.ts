// The 32-bit CRCs, each from the fastest implementation there is here: node's zlib, a native add-on.
import { crc32 as zlibCrc32 } from "node:zlib";
import nodeRs from "@node-rs/crc32";
import type { Checksum } from "@concord/runtime";

/** CRC-32 (IEEE), unsigned; with `previous` it goes on from earlier bytes. */
export const crc32: Checksum = (bytes, previous = 0) => zlibCrc32(bytes, previous);

/** CRC-32C (Castagnoli), unsigned; with `previous` it goes on from earlier bytes. */
export const crc32c: Checksum = (bytes, previous = 0) => nodeRs.crc32c(bytes, previous) >>> 0;

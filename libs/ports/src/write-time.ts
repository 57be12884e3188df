import { BATCH_BYTES_MAX } from "./batches.ts";

/** A replica with a slow disk, which writes of others share, takes so many bytes in a millisecond at least. */
export const WRITE_BYTES_PER_MS = 256;
/** Bytes that need no time of their own. */
export const WRITE_BYTES_FREE = 64 * 1024;
/** A write has no more time than this beyond its time-out, so that a node which starts knows when the writes of its earlier life have ended. */
export const WRITE_MORE_MS_MAX = BATCH_BYTES_MAX / WRITE_BYTES_PER_MS;

/** How long a write may take to a replica: the time-out, which is for a small one, and the time of its bytes. */
export function writeMs(timeoutMs: number, bytes: number): number {
  return timeoutMs + Math.min(bytesMs(bytes), WRITE_MORE_MS_MAX);
}

/** A read has no more time than this beyond its time-out: that of two rows of the largest size, which one answer of a replica may hold. */
export const READ_MORE_MS_MAX = (4 * 1024 * 1024) / WRITE_BYTES_PER_MS;

/** How long a read may take whose largest answers have so many bytes. What could be written at this speed can be read at it. */
export function readMs(timeoutMs: number, bytes: number): number {
  return timeoutMs + Math.min(bytesMs(bytes), READ_MORE_MS_MAX);
}

function bytesMs(bytes: number): number {
  return Math.ceil(Math.max(0, bytes - WRITE_BYTES_FREE) / WRITE_BYTES_PER_MS);
}

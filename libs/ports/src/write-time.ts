import { BATCH_BYTES_MAX } from "./batches.ts";

/** A replica with a slow disk, which writes of others share, takes so many bytes in a millisecond at least. */
export const WRITE_BYTES_PER_MS = 256;
/** Bytes that need no time of their own. */
export const WRITE_BYTES_FREE = 64 * 1024;
/** A write has no more time than this beyond its time-out, so that a node which starts knows when the writes of its earlier life have ended. */
export const WRITE_MORE_MS_MAX = BATCH_BYTES_MAX / WRITE_BYTES_PER_MS;

/** How long a write may take to a replica: the time-out, which is for a small one, and the time of its bytes. */
export function writeMs(timeoutMs: number, bytes: number): number {
  const moreMs = Math.ceil(Math.max(0, bytes - WRITE_BYTES_FREE) / WRITE_BYTES_PER_MS);
  return timeoutMs + Math.min(moreMs, WRITE_MORE_MS_MAX);
}

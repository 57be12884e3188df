export type DigestName = "MD5" | "CRC32" | "CRC32C" | "CRC64NVME" | "SHA1" | "SHA256";

/** Memory that is filled and hashed at once; each body uses two. */
export const DIGEST_BUFFER_BYTES = 1024 * 1024;

/** Digests of long bodies, computed beside the calling thread. */
export interface DigestThread {
  /** Undefined: not now, the caller hashes by itself. */
  begin(names: readonly DigestName[]): ThreadDigests | undefined;
}

/** Of one body. A failure of the thread is thrown by what waits for it: STORE_FAILED, applied no. */
export interface ThreadDigests {
  /** DIGEST_BUFFER_BYTES of memory to fill, once those that it held before are hashed. It is the caller's to read until it asks for the next but one. */
  buffer(): Promise<Uint8Array>;
  /** The first `length` bytes of the newest buffer are the body's next ones. */
  add(length: number): void;
  /** Once, after the last byte. */
  finish(): Promise<ReadonlyMap<DigestName, Uint8Array>>;
  /** However it ended: nothing of it is read or written by the caller afterwards. */
  close(): void;
}

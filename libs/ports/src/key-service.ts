/** A data key as it is stored: only the service that wrapped it gives it back. */
export interface WrappedKey {
  readonly keyId: string;
  readonly wrapped: Uint8Array;
}

/** Keys that wrap the data keys of objects and never leave it: of this process, or of a service elsewhere. */
export interface KeyService {
  /** Under the key of this id, or the one that is used when none is named. NOT_FOUND: there is no such key. */
  wrap(keyId: string | undefined, dataKey: Uint8Array, associated: Uint8Array): Promise<WrappedKey>;
  /** NOT_FOUND: there is no such key (any more); CORRUPT_DATA: it was not wrapped with exactly these. */
  unwrap(key: WrappedKey, associated: Uint8Array): Promise<Uint8Array>;
  /** False: a key that is newer than the one it was wrapped under took that one's place. */
  isCurrent(key: WrappedKey): boolean;
}

/** Length of a key, of a nonce and of the tag behind a ciphertext, of AES-256-GCM. */
export const CIPHER_KEY_BYTES = 32;
export const CIPHER_NONCE_BYTES = 12;
export const CIPHER_TAG_BYTES = 16;

/** Encryption as an argument. It keeps none of what it is given. */
export interface Cipher {
  /** AES-256-GCM: the ciphertext, then its tag. A nonce is used once with a key. */
  seal(key: Uint8Array, nonce: Uint8Array, associated: Uint8Array, plain: Uint8Array): Uint8Array;
  /** Undefined: it was not sealed with exactly these. */
  open(key: Uint8Array, nonce: Uint8Array, associated: Uint8Array, sealed: Uint8Array): Uint8Array | undefined;
  /** HMAC-SHA-256: 32 bytes that say nothing of the key. */
  derive(key: Uint8Array, info: Uint8Array): Uint8Array;
}

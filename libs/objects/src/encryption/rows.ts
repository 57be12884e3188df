// What rows say of encryption: never a key in plaintext.

/** The key that an object's data key is wrapped under. */
export type WrappingKey =
  /** SSE-S3: a master key of the gateways. */
  | { readonly kind: "managed"; readonly keyId: string }
  /** SSE-KMS: a key of a key service; the client's context is bound to it. */
  | { readonly kind: "service"; readonly keyId: string; readonly context: string }
  /** SSE-C: the client's, which is not kept. */
  | { readonly kind: "customer" };

/** Of an encrypted object, or of an upload that will be one: lengths in its rows are those of the plaintext (frames.ts). */
export interface ObjectEncryption {
  readonly under: WrappingKey;
  /** The object's data key. */
  readonly wrapped: Uint8Array;
  /** Of the put or of the upload: what is encrypted is bound to it. */
  readonly guid: bigint;
  /** The checksum of the plaintext, encrypted; absent: there is none, or it is in the row (managed). */
  readonly checksum?: Uint8Array;
}

/** Of a part of an encrypted upload. */
export interface PartEncryption {
  /** Of the part's put. */
  readonly guid: bigint;
  readonly checksum?: Uint8Array;
}

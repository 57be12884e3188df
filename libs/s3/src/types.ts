// The shapes this kit hands to the object store. They are those of the store's own interface (a kit does not import a domain).

export type ChecksumAlgorithm = "CRC32" | "CRC32C" | "CRC64NVME" | "SHA1" | "SHA256";
export type ChecksumType = "FULL_OBJECT" | "COMPOSITE";

export interface StoredChecksum {
  readonly algorithm: ChecksumAlgorithm;
  readonly type: ChecksumType;
  /** Base64; a composite one has "-N" behind it. */
  readonly value: string;
}

/** What a multipart upload is checked with. */
export interface UploadChecksum {
  readonly algorithm: ChecksumAlgorithm;
  readonly type: ChecksumType;
}

/** A body on its way in: what was signed or announced is checked while the bytes pass. */
export interface CheckedBody {
  /** Announced length of the decoded body. */
  readonly lengthBytes: number;
  /** Read at most once. Throws S3Error when what was signed or announced does not hold, and whatever the request's body throws. */
  readonly chunks: AsyncIterable<Uint8Array>;
  /** After the last chunk. */
  finish(): Digests;
}

export interface Digests {
  readonly md5Hex: string;
  readonly checksum: StoredChecksum | undefined;
}

export interface ObjectAttributes {
  /** content-type, content-encoding (without aws-chunked), content-language, content-disposition, cache-control, expires: present ones only. */
  readonly headers: Readonly<Record<string, string>>;
  /** x-amz-meta-*: names in lower case without the prefix. */
  readonly metadata: Readonly<Record<string, string>>;
  readonly tags: Readonly<Record<string, string>>;
}

/** Until then a version is not removed. */
export interface Retention {
  readonly mode: "GOVERNANCE" | "COMPLIANCE";
  readonly untilMs: number;
}

/** What keeps a version. */
export interface ObjectLock {
  readonly retention?: Retention | undefined;
  readonly legalHold?: "ON" | "OFF" | undefined;
}

/** Of a bucket whose versions can be locked. */
export interface BucketLocking {
  readonly defaultRetention?: DefaultRetention | undefined;
}

export interface DefaultRetention {
  readonly mode: Retention["mode"];
  readonly unit: "days" | "years";
  readonly count: number;
}

/** Conditions of a delete, as the store has them. */
export interface DeleteCondition {
  readonly ifMatch?: readonly string[];
  readonly modifiedMs?: number;
  readonly sizeBytes?: number;
}

export interface Precondition {
  readonly ifMatch?: readonly string[];
  readonly ifNoneMatch?: readonly string[];
  readonly ifModifiedSinceMs?: number;
  readonly ifUnmodifiedSinceMs?: number;
}

/** Offsets of the first and the last byte; `last` undefined: to the end; `first` undefined: the last `last` bytes. */
export interface ByteRange {
  readonly first: number | undefined;
  readonly last: number | undefined;
}

/** How an object is to be encrypted. */
export type EncryptionRequest =
  | { readonly kind: "managed" }
  /** Without an id the service's default; the context is JSON, or empty. */
  | { readonly kind: "service"; readonly keyId: string | undefined; readonly context: string }
  | { readonly kind: "customer"; readonly key: Uint8Array };

/** Of what is stored. */
export type UsedEncryption = { readonly kind: "managed" | "customer" } | { readonly kind: "service"; readonly keyId: string };

/** Of a bucket: what its uploads that ask for nothing are encrypted with. */
export type DefaultEncryption = { readonly kind: "managed" } | { readonly kind: "service"; readonly keyId: string | undefined };

// The API of the object store for its callers (the S3 routes). Every refusal is a ConcordError with a code of the closed list.
import type { Span } from "@concord/runtime";
import type { Bypass } from "./locks.ts";
import type { EncryptionRequest, ShownEncryption } from "./encryption/data-keys.ts";
import type {
  BucketLocking,
  ObjectAcl,
  ObjectLock,
  Retention,
  BucketSettings,
  ChecksumAlgorithm,
  EventCause,
  NamedPart,
  ObjectAttributes,
  StoredChecksum,
  StoredObject,
  Versioning,
} from "./rows.ts";

/** An incoming body. The kit behind it checks signature, length and digests while the bytes pass. */
export interface UploadBody {
  /** Announced length of the decoded body; undefined: unknown until its end. */
  readonly lengthBytes: number | undefined;
  /** Throws when the client breaks off or what it signed or announced does not hold. A chunk is the reader's until it asks for the next one. */
  readonly chunks: AsyncIterable<Uint8Array>;
  /** After the last chunk: the digests. Throws when one that was announced, also in a trailer, is not that of the bytes. */
  finish(): { readonly md5Hex: string; readonly checksum: StoredChecksum | undefined };
}

export interface Precondition {
  /** ETags without quotes; "*" stands alone. */
  readonly ifMatch?: readonly string[];
  readonly ifNoneMatch?: readonly string[];
  readonly ifModifiedSinceMs?: number;
  readonly ifUnmodifiedSinceMs?: number;
  readonly judge?: JudgeObject | undefined;
}

/**
 * Throws when the caller has no right to the object: called before every other condition with exactly the object that a read serves, or that a
 * write or a delete replaces or removes; undefined: there is none.
 */
export type JudgeObject = (object: Judged | undefined) => void;
/** What a right to an object depends on. */
export type Judged = Pick<StoredObject, "acl" | "attributes">;

/** Conditions of a delete, of which all must hold. Without an object If-Match fails, the others hold. */
export interface DeleteCondition {
  /** ETags without quotes; "*" stands alone: any object. */
  readonly ifMatch?: readonly string[];
  /** Compared in whole seconds. */
  readonly modifiedMs?: number;
  readonly sizeBytes?: number;
  readonly judge?: JudgeObject | undefined;
}

export interface Stored {
  readonly etag: string;
  readonly checksum: StoredChecksum | undefined;
  readonly modifiedMs: number;
  /** In a bucket that has versions. */
  readonly versionId?: string;
  readonly encryption?: ShownEncryption;
}

export interface Copied extends Stored {
  /** Of the source, in a bucket that has versions. */
  readonly sourceVersionId?: string;
}

export interface Deleted {
  /** A delete marker was put, or the version that was removed was one. */
  readonly isMarker: boolean;
  /** Of that marker, or the one that was asked for. */
  readonly versionId: string | undefined;
}

/** Offsets of the first and the last byte; `last` undefined: to the end; `first` undefined: the last `last` bytes. */
export interface ByteRange {
  readonly first: number | undefined;
  readonly last: number | undefined;
}

export interface FoundObject {
  readonly object: StoredObject;
  /** The requested bytes: first offset and length. */
  readonly offset: number;
  readonly lengthBytes: number;
  /** Ends with an error when the longest request has passed (OGD10) or the data fails its checksum. */
  readonly bytes: AsyncIterable<Uint8Array>;
}

export interface ListedObject {
  readonly key: string;
  readonly sizeBytes: number;
  readonly etag: string;
  readonly modifiedMs: number;
  readonly checksum: StoredChecksum | undefined;
  /** Where it is another than the bucket's. */
  readonly owner: string | undefined;
}

export interface ListRequest {
  readonly bucket: string;
  readonly prefix: string;
  readonly delimiter: string | undefined;
  /** Keys and common prefixes after this one. */
  readonly after: string | undefined;
  readonly limit: number;
}

export interface Listing {
  readonly objects: readonly ListedObject[];
  readonly commonPrefixes: readonly string[];
  /** The last key or common prefix, when there is more. */
  readonly next: string | undefined;
}

export interface ListVersionsRequest extends Omit<ListRequest, "after"> {
  /** Entries after this version; without a version id after all of the key, or after the common prefix. */
  readonly after: { readonly key: string; readonly versionId: string | undefined } | undefined;
}

/** An object or a delete marker. */
export interface ListedVersion {
  readonly key: string;
  readonly versionId: string;
  readonly isLatest: boolean;
  readonly modifiedMs: number;
  /** Undefined: a delete marker. */
  readonly object: Pick<ListedObject, "sizeBytes" | "etag" | "checksum" | "owner"> | undefined;
}

export interface VersionListing {
  readonly versions: readonly ListedVersion[];
  readonly commonPrefixes: readonly string[];
  readonly next: { readonly key: string; readonly versionId: string | undefined } | undefined;
}

export interface BucketInfo {
  readonly name: string;
  readonly tenant: string;
  readonly region: string;
  readonly createdMs: number;
  /** What its owner has configured; number 0: nothing yet. */
  readonly settings: BucketSettings;
  /** Absent: its versions cannot be locked. */
  readonly locking?: BucketLocking;
}

export interface NewUpload {
  readonly attributes: ObjectAttributes;
  readonly checksum: { readonly algorithm: ChecksumAlgorithm; readonly type: "FULL_OBJECT" | "COMPOSITE" } | undefined;
  readonly acl?: ObjectAcl | undefined;
  readonly lock?: ObjectLock | undefined;
  readonly encryption?: EncryptionRequest | undefined;
}

/** What an object that was uploaded in parts consists of. */
export interface PartPage {
  readonly total: number;
  /** In order; the checksum is that of the part's bytes, where it was uploaded with one. */
  readonly parts: readonly { readonly number: number; readonly sizeBytes: number; readonly checksum: StoredChecksum | undefined }[];
  /** Undefined: no part follows. */
  readonly next: number | undefined;
}

export interface ListedPart {
  readonly number: number;
  readonly etag: string;
  readonly sizeBytes: number;
  readonly modifiedMs: number;
  readonly checksum: StoredChecksum | undefined;
}

export interface ListedUpload {
  readonly key: string;
  readonly uploadId: bigint;
  readonly initiatedMs: number;
  readonly owner: string | undefined;
}

/** The source of a copy. */
export interface CopySource {
  readonly bucket: string;
  readonly key: string;
  readonly range: ByteRange | undefined;
  readonly precondition: Precondition;
  readonly versionId?: string | undefined;
  readonly customerKey?: Uint8Array | undefined;
}

export interface HeadRequest {
  readonly bucket: string;
  readonly key: string;
  readonly precondition: Precondition;
  readonly versionId?: string | undefined;
  readonly customerKey?: Uint8Array | undefined;
  /** Also a checksum that is stored encrypted: its key is asked for. */
  readonly checksum?: "wanted" | undefined;
}

/** Names: bucket and key are checked by `names.ts`; a bucket of another tenant is the caller's to refuse (headBucket tells the tenant). */
export interface ObjectStore {
  /** The same store for one request, whose events name its `cause`: its writes in `bucket` are refused (WRITE_CONFLICT) when the bucket got newer settings than these. */
  judgedBy(bucket: string, settings: bigint, cause?: EventCause): ObjectStore;
  /** The same store for one request: what changes a bucket waits for other changes until `signal` is aborted, then it is CANCELLED. */
  until(signal: AbortSignal): ObjectStore;
  /** The same store for one request that is traced. */
  tracedBy(span: Span): ObjectStore;
  // buckets.ts
  /** With these documents as settings; with some, one's own bucket must not have others: BUCKET_EXISTS (field "own"). */
  createBucket(request: {
    bucket: string;
    tenant: string;
    region: string;
    documents?: Readonly<Record<string, string>> | undefined;
    /** It keeps versions, which can be locked. */
    withLocks?: boolean | undefined;
  }): Promise<void>;
  /** BUCKET_UNKNOWN. */
  headBucket(bucket: string): Promise<BucketInfo>;
  listBuckets(tenant: string): Promise<readonly BucketInfo[]>;
  deleteBucket(bucket: string): Promise<void>;
  bucketTags(bucket: string): Promise<Readonly<Record<string, string>>>;
  setBucketTags(bucket: string, tags: Readonly<Record<string, string>>): Promise<void>;
  /** Absent: it never kept versions. */
  bucketVersioning(bucket: string): Promise<Versioning | undefined>;
  /**
   * In effect for every write that begins after it resolved. WRITE_CONFLICT: another request changes the bucket. MALFORMED_REQUEST (field
   * "bucket-state"): the bucket has locks, and keeps versions for ever.
   */
  setBucketVersioning(bucket: string, versioning: Versioning): Promise<void>;
  /** Undefined: its versions cannot be locked. */
  bucketLocking(bucket: string): Promise<BucketLocking | undefined>;
  /**
   * From now on its versions can be locked, and new objects get this default; in effect for every write that commits after it resolved. MALFORMED_REQUEST
   * (field "bucket-state"): it keeps no versions.
   */
  setBucketLocking(bucket: string, locking: BucketLocking): Promise<void>;
  /** One document of the bucket's settings; without a text it goes. In effect for every write that commits after it resolved. */
  setBucketDocument(request: { bucket: string; name: string; text: string | undefined }): Promise<void>;
  /** Objects and their bytes, earlier versions too; open uploads and delete markers do not count. */
  bucketUsage(bucket: string): Promise<{ readonly objects: bigint; readonly bytes: bigint }>;
  // put-object.ts, get-object.ts, delete-object.ts, list-objects.ts, tags.ts, copy-object.ts
  putObject(request: {
    bucket: string;
    key: string;
    body: UploadBody;
    attributes: ObjectAttributes;
    acl?: ObjectAcl | undefined;
    /** In a bucket with locks: MALFORMED_REQUEST elsewhere. */
    lock?: ObjectLock | undefined;
    precondition: Precondition;
    /** For its event; a put if absent. */
    by?: "form" | undefined;
    encryption?: EncryptionRequest | undefined;
  }): Promise<Stored>;
  /** With the customer's key where it was stored with one (SSE-C). */
  getObject(request: {
    bucket: string;
    key: string;
    range: ByteRange | undefined;
    precondition: Precondition;
    part: number | undefined;
    versionId?: string | undefined;
    customerKey?: Uint8Array | undefined;
  }): Promise<FoundObject>;
  /** `version` of the object is there in every bucket that has versions. */
  headObject(request: HeadRequest): Promise<StoredObject>;
  /** The same, and the parts of exactly this object behind part number `after`; undefined when it was not uploaded in parts. Also CORRUPT_DATA. */
  headObjectParts(
    request: HeadRequest & { readonly after: number; readonly limit: number },
  ): Promise<{ readonly object: StoredObject; readonly parts: PartPage | undefined }>;
  /** Success also when there was none (S3: 204), unless the condition asks for one. PERMISSION_DENIED (field "lock"): a lock keeps the version. */
  deleteObject(request: {
    bucket: string;
    key: string;
    condition?: DeleteCondition;
    versionId?: string | undefined;
    bypass?: Bypass;
  }): Promise<Deleted>;
  /** Current objects. */
  listObjects(request: ListRequest): Promise<Listing>;
  /** Objects and delete markers: by key, then newest first. */
  listVersions(request: ListVersionsRequest): Promise<VersionListing>;
  /** Tags, ACL and lock are read without a customer's key (SSE-C). */
  objectTags(request: {
    bucket: string;
    key: string;
    versionId?: string | undefined;
    judge?: JudgeObject | undefined;
  }): Promise<Readonly<Record<string, string>>>;
  setObjectTags(request: {
    bucket: string;
    key: string;
    versionId?: string | undefined;
    tags: Readonly<Record<string, string>>;
    judge?: JudgeObject | undefined;
  }): Promise<void>;
  objectAcl(request: {
    bucket: string;
    key: string;
    versionId?: string | undefined;
    judge: JudgeObject | undefined;
  }): Promise<ObjectAcl | undefined>;
  /** `change` makes it of the object as it is, or throws; it may be called again. */
  setObjectAcl(request: {
    bucket: string;
    key: string;
    versionId?: string | undefined;
    change: (object: Judged) => ObjectAcl | undefined;
  }): Promise<void>;
  // locks.ts
  objectLock(request: { bucket: string; key: string; versionId?: string | undefined }): Promise<ObjectLock | undefined>;
  setObjectRetention(request: {
    bucket: string;
    key: string;
    versionId?: string | undefined;
    retention: Retention | undefined;
    bypass?: Bypass;
  }): Promise<void>;
  setObjectLegalHold(request: { bucket: string; key: string; versionId?: string | undefined; legalHold: "ON" | "OFF" }): Promise<void>;
  /** The copy's ACL, lock and redirect are its own. */
  copyObject(request: {
    source: CopySource;
    bucket: string;
    key: string;
    acl?: ObjectAcl | undefined;
    lock?: ObjectLock | undefined;
    /** Undefined: those of the source. */
    attributes: ObjectAttributes | undefined;
    /** Beside the attributes of the source. */
    redirect?: string | undefined;
    tags: Readonly<Record<string, string>> | undefined;
    precondition: Precondition;
    digest: CopyDigest;
    encryption?: EncryptionRequest | undefined;
  }): Promise<Copied>;
  // multipart/
  createUpload(request: { bucket: string; key: string } & NewUpload): Promise<bigint>;
  /** With the customer's key of its upload, if that has one. */
  putPart(request: {
    bucket: string;
    key: string;
    uploadId: bigint;
    number: number;
    body: UploadBody;
    customerKey?: Uint8Array | undefined;
  }): Promise<Stored>;
  copyPart(request: {
    bucket: string;
    key: string;
    uploadId: bigint;
    number: number;
    source: CopySource;
    digest: CopyDigest;
    customerKey?: Uint8Array | undefined;
  }): Promise<Copied>;
  listParts(request: {
    bucket: string;
    key: string;
    uploadId: bigint;
    after: number;
    limit: number;
    judge?: JudgeObject | undefined;
    /** Without it an upload that has one shows no checksums of parts. */
    customerKey?: Uint8Array | undefined;
  }): Promise<{
    readonly parts: readonly ListedPart[];
    readonly next: number | undefined;
    readonly initiatedMs: number;
    readonly checksum: NewUpload["checksum"];
    readonly owner: string | undefined;
  }>;
  listUploads(request: {
    bucket: string;
    prefix: string;
    delimiter: string | undefined;
    after: { key: string; uploadId: bigint | undefined } | undefined;
    limit: number;
  }): Promise<{
    readonly uploads: readonly ListedUpload[];
    readonly commonPrefixes: readonly string[];
    readonly next: { key: string; uploadId: bigint | undefined } | undefined;
  }>;
  completeUpload(request: {
    bucket: string;
    key: string;
    uploadId: bigint;
    parts: readonly (NamedPart & { readonly checksum: string | undefined })[];
    checksum: StoredChecksum | undefined;
    precondition: Precondition;
    combine: CombineDigests;
    customerKey?: Uint8Array | undefined;
  }): Promise<Stored>;
  abortUpload(request: { bucket: string; key: string; uploadId: bigint; judge?: JudgeObject | undefined }): Promise<void>;
}

/** Digests while bytes are copied; made by the kit, since domain code imports no hash functions. */
export type CopyDigest = (
  algorithm: ChecksumAlgorithm | undefined,
  lengthBytes: number,
) => {
  update(bytes: Uint8Array): void;
  finish(): { readonly md5Hex: string; readonly checksum: StoredChecksum | undefined };
};

/** The ETag of parts (MD5 of MD5s, "-N") and their checksum, composite or of the whole object (CRCs can be combined). */
export type CombineDigests = (
  parts: readonly { readonly md5Hex: string; readonly lengthBytes: number; readonly checksum: StoredChecksum | undefined }[],
  checksum: NewUpload["checksum"],
) => { readonly etag: string; readonly checksum: StoredChecksum | undefined };

// The row types of an object store. One partition per bucket and shard holds all rows of its keys (OGD15).
import type { Oid } from "@concord/ports";
import type { ObjectEncryption, PartEncryption } from "./encryption/rows.ts";

/** Checksums of a whole object or part: those that the client sent or asked for, or the gateway's default; base64 as in S3 headers. */
export type ChecksumAlgorithm = "CRC32" | "CRC32C" | "CRC64NVME" | "SHA1" | "SHA256";

export interface StoredChecksum {
  readonly algorithm: ChecksumAlgorithm;
  /** FULL_OBJECT or COMPOSITE ("...-3"). */
  readonly type: "FULL_OBJECT" | "COMPOSITE";
  readonly value: string;
}

/** Attributes that the client gives an object, returned unchanged. */
export interface ObjectAttributes {
  /** content-type, content-encoding, content-language, content-disposition, cache-control, expires, x-amz-website-redirect-location: present ones only. */
  readonly headers: Readonly<Record<string, string>>;
  /** x-amz-meta-*: names in lower case without the prefix. */
  readonly metadata: Readonly<Record<string, string>>;
  readonly tags: Readonly<Record<string, string>>;
}

export type Content =
  /** In the row itself (OGD14). */
  | { readonly kind: "inline"; readonly bytes: Uint8Array }
  /** In a row of the same partition: `bodyKey` of the object's key and the GUID of its put. What moves or changes the object's row leaves it where it is. */
  | { readonly kind: "beside"; readonly guid: bigint }
  /** The length is that of the object: an encrypted blob is longer. */
  | { readonly kind: "blob"; readonly oid: Oid; readonly lengthBytes: number }
  /** The parts stay rows of the upload (OGD11): numbers and lengths in order, so that a range needs only the parts it touches. */
  | {
      readonly kind: "parts";
      readonly uploadId: bigint;
      readonly parts: readonly { readonly number: number; readonly lengthBytes: number }[];
    };

/**
 * Whether a bucket keeps what writes replace; absent: it never did. Suspended: writes replace the null version, others stay.
 */
export type Versioning = "enabled" | "suspended";

/** Which version of its key a row is: ordered by the number of the commit that made it, then by its GUID, never by a clock alone (OGD5). */
export interface ObjectVersion {
  readonly commit: bigint;
  readonly guid: bigint;
  /** Written while the bucket was not versioned, or suspended: a key has at most one such version, which clients call "null". */
  readonly isNull: boolean;
}

/** A version that says that there is no object: what a delete leaves in a versioned bucket. */
export interface DeleteMarker {
  readonly kind: "marker";
  readonly version: ObjectVersion;
  readonly modifiedMs: number;
}

/** In the head row of a key: its current object; in a version's row: an earlier one. */
export interface StoredObject {
  readonly kind: "object";
  readonly content: Content;
  readonly sizeBytes: number;
  /** Without quotes: MD5 in hex, or MD5 of MD5s and "-N" for N parts; for "MD5" 128 bits that say nothing of the content under SSE-C and SSE-KMS. */
  readonly etag: string;
  readonly modifiedMs: number;
  readonly attributes: ObjectAttributes;
  readonly checksum: StoredChecksum | undefined;
  /** Absent: the null version, written before its bucket was versioned; ordered by the version of its row. */
  readonly version?: ObjectVersion;
  readonly acl?: ObjectAcl;
  /** Absent: nothing keeps it. */
  readonly lock?: ObjectLock;
  /** Absent: it is stored as it came. */
  readonly encryption?: ObjectEncryption;
}

/**
 * Bytes of a version whose row says `beside`: put by the commit that puts the version, and gone with the commit in which the version goes. Its row
 * has the version of that first commit for ever, which is the version's name where its bucket keeps versions.
 */
export interface BodyRow {
  readonly kind: "body";
  readonly bytes: Uint8Array;
}

export type RetentionMode = "GOVERNANCE" | "COMPLIANCE";

/** Until then the version is not removed: in governance mode unless its caller may bypass it, in compliance mode by no request. */
export interface Retention {
  readonly mode: RetentionMode;
  readonly untilMs: number;
}

/** What keeps a version from being removed. Each absent: it was never set. */
export interface ObjectLock {
  readonly retention?: Retention | undefined;
  readonly legalHold?: "ON" | "OFF" | undefined;
}

/** Of a bucket whose versions can be locked: it keeps versions, and stays so for ever. */
export interface BucketLocking {
  /** For new objects that come without a retention of their own. */
  readonly defaultRetention?: DefaultRetention | undefined;
}

export interface DefaultRetention {
  readonly mode: RetentionMode;
  readonly unit: "days" | "years";
  readonly count: number;
}

/** Whose an object is, and who else may do what with it. Absent: it is the bucket owner's, and others may do nothing. */
export interface ObjectAcl {
  readonly owner: string;
  /** As the callers of the store read it. */
  readonly grants: string;
}

/** One entry of a completed part list, as the client named it. */
export interface NamedPart {
  readonly number: number;
  readonly etag: string;
}

export type UploadState =
  | { readonly kind: "open" }
  /** A request completes it; parts are refused and abort loses (OGD11). A stale one may be taken over by another complete. */
  | { readonly kind: "completing"; readonly guid: bigint; readonly sinceMs: number; readonly parts: readonly NamedPart[] }
  /** Kept while the object points at it, and at least COMPLETE_REMEMBERED_MS for a repeated complete. */
  | {
      readonly kind: "done";
      readonly guid: bigint;
      readonly etag: string;
      readonly doneMs: number;
      readonly parts: readonly NamedPart[];
      readonly version?: ObjectVersion;
    };

export interface UploadRow {
  readonly kind: "upload";
  readonly state: UploadState;
  readonly initiatedMs: number;
  readonly attributes: ObjectAttributes;
  /** The algorithm and type the parts and the object are checked with; undefined: none asked for. */
  readonly checksum: { readonly algorithm: ChecksumAlgorithm; readonly type: "FULL_OBJECT" | "COMPOSITE" } | undefined;
  /** Of the object that it becomes. */
  readonly acl?: ObjectAcl;
  /** Of the object that it becomes, as its client asked. */
  readonly lock?: ObjectLock;
  readonly encryption?: ObjectEncryption;
}

/** A part that arrived. Parts are blobs whatever their size. */
export interface PartRow {
  readonly kind: "part";
  readonly oid: Oid;
  readonly lengthBytes: number;
  readonly etag: string;
  readonly modifiedMs: number;
  readonly checksum: StoredChecksum | undefined;
  readonly encryption?: PartEncryption;
}

/** Garbage: never referred to again, removed when due (OGD10). */
export interface GcEntry {
  readonly kind: "garbage";
  readonly bucket: string;
  readonly key: string;
  readonly dueMs: number;
  readonly what:
    | { readonly kind: "blobs"; readonly oids: readonly Oid[] }
    /** All parts of an upload, then the upload row itself. */
    | { readonly kind: "upload"; readonly uploadId: bigint }
    /** The last number of a key that has no row, as the commit with this GUID left it. */
    | { readonly kind: "last number"; readonly guid: bigint };
}

/** What a commit did with a key, as S3 calls it. */
export type EventName =
  | "ObjectCreated:Put"
  | "ObjectCreated:Post"
  | "ObjectCreated:Copy"
  | "ObjectCreated:CompleteMultipartUpload"
  | "ObjectRemoved:Delete"
  | "ObjectRemoved:DeleteMarkerCreated"
  | "LifecycleExpiration:Delete"
  | "LifecycleExpiration:DeleteMarkerCreated"
  | "ObjectTagging:Put"
  | "ObjectTagging:Delete"
  | "ObjectAcl:Put";

/** Whose request it was. */
export interface EventCause {
  readonly principal: string;
  readonly address: string;
  readonly requestId: string;
}

/**
 * An event that waits for its delivery: written by the very commit that it tells of, whose number and GUID are the row's version. It has all
 * that the message needs, so it outlives its bucket.
 */
export interface EventRow {
  readonly kind: "event";
  readonly name: EventName;
  readonly bucket: string;
  /** Tells buckets of one name apart. */
  readonly bucketCreatedMs: number;
  /** Whose the bucket and the target are. */
  readonly tenant: string;
  readonly region: string;
  readonly key: string;
  readonly ruleId: string;
  /** Of the rule among its bucket's. */
  readonly rule: number;
  readonly atMs: number;
  readonly cause: EventCause;
  /** In a bucket that keeps versions. */
  readonly versionId: string | undefined;
  /** Of an object that is there now. */
  readonly object: { readonly sizeBytes: number; readonly etag: string } | undefined;
}

/**
 * The number of the commit that left a key without a row, in a bucket with event rules: the next write of the key goes on above it, whatever
 * clocks do. Garbage after the grace.
 */
export interface LastNumberRow {
  readonly kind: "last number";
}

/** What a shard's header says of events: every write commits under exactly these rules. */
export interface ShardEvents {
  readonly createdMs: number;
  readonly tenant: string;
  readonly region: string;
  /** JSON of the rules; there is at least one. */
  readonly rules: string;
}

/**
 * First row of every partition of a bucket (OGD17). Every commit of objects, uploads and parts names its version, so raising its commit
 * number makes every commit fail that saw the older one: the fence of OGD2.
 */
export interface ShardHeader {
  readonly kind: "header";
  readonly state: "open" | "closed";
  /** As in the bucket's row: a request that used another number reads again. */
  readonly shards: number;
  /** As in the bucket's row, so that a commit which saw it otherwise fails. */
  readonly versioning?: Versioning;
  /** Number of the bucket's settings; absent: it never had any. A write that was judged by older ones is refused (I17). */
  readonly settings?: bigint;
  /** As in the bucket's row: a put gets the default that the header has which its commit names. */
  readonly locking?: BucketLocking;
  /** Absent: no event rules. Only with settings. */
  readonly events?: ShardEvents;
}

export interface BucketRow {
  readonly kind: "bucket";
  readonly name: string;
  readonly tenant: string;
  readonly region: string;
  readonly createdMs: number;
  /** Partitions of the bucket: `bucketPartition(name, 0 .. shards-1)`. */
  readonly shards: number;
  /** Users see a changing bucket as an open one. A removed bucket is unknown to users; its row tells garbage collection where rows may be left, and goes when none are. */
  readonly state: "making" | "open" | "removing" | "removed" | "changing";
  readonly tags: Readonly<Record<string, string>>;
  /** As every header says, but while the bucket is changing. */
  readonly versioning?: Versioning;
  /** Absent: the owner has configured nothing. */
  readonly settings?: BucketSettings;
  /** Absent: its versions cannot be locked. Never goes again. */
  readonly locking?: BucketLocking;
}

/** What the owner of a bucket has configured, by name, as the callers of the store read it. Grows by one with each change. */
export interface BucketSettings {
  readonly number: bigint;
  readonly documents: Readonly<Record<string, string>>;
}

/** One gateway epoch (OGD3, OGD6). */
export interface EpochRow {
  readonly kind: "epoch";
  readonly epoch: number;
  readonly instance: string;
  /** Sequences below are reserved. */
  readonly reservedTo: number;
  /** Sequences below are resolved. */
  readonly lowWater: number;
  readonly closed: boolean;
}

/** What a scrub has met; leaked and dangling are expected to be 0. */
export interface ScrubCounts {
  readonly rows: number;
  readonly blobs: number;
  /** Of blobs, read and verified. */
  readonly bytes: number;
  readonly leaked: number;
  readonly leakedBytes: number;
  /** Rows whose data is absent or not whole. */
  readonly dangling: number;
  /** Rows whose data fails its checksum. */
  readonly damaged: number;
  readonly unreadableRows: number;
}

export type ScrubPlace =
  /** Rows of the bucket's shard from `from` on are next. */
  | { readonly kind: "rows"; readonly bucket: string; readonly shard: number; readonly from: Uint8Array }
  /** Blobs of the epoch from `sequence` on are next. */
  | { readonly kind: "blobs"; readonly epoch: number; readonly sequence: number }
  | { readonly kind: "ended"; readonly endedMs: number };

/** What a lifecycle pass has done. */
export interface LifecycleCounts {
  /** Keys and open uploads. */
  readonly looked: number;
  /** Current objects that expired: removed, or a delete marker put. */
  readonly current: number;
  readonly nonCurrent: number;
  /** Delete markers that went. */
  readonly markers: number;
  /** Of versions that went. */
  readonly bytes: number;
  /** Uploads that were aborted. */
  readonly uploads: number;
  /** What another request changed between the look and the removal: left alone. */
  readonly overtaken: number;
  /** What was due and could not be removed, and rows that cannot be read. */
  readonly kept: number;
}

export type LifecyclePlace =
  /** Heads, then open uploads, of the bucket's shard from `from` on are next. */
  | { readonly kind: "rows"; readonly bucket: string; readonly shard: number; readonly from: Uint8Array }
  | { readonly kind: "ended"; readonly endedMs: number };

/** How far the lifecycle pass of all gateways has come. */
export interface LifecycleRow {
  readonly kind: "lifecycle";
  readonly startedMs: number;
  /** The bounded time when this was written. */
  readonly timeMs: number;
  readonly place: LifecyclePlace;
  /** Of this pass, or of the last one when it has ended. */
  readonly counts: LifecycleCounts;
}

/** How far the time of object locks has come, of all gateways; only grows. Older than every lock. */
export interface LockTimeRow {
  readonly kind: "lock-time";
  readonly timeMs: number;
}

/** How far the scrub of all gateways has come (OGD9). A page's result counts when its gateway replaces exactly the row that it began with. */
export interface ScrubRow {
  readonly kind: "scrub";
  readonly startedMs: number;
  readonly place: ScrubPlace;
  /** Of this pass, or of the last one when it has ended. */
  readonly counts: ScrubCounts;
}

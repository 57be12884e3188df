import { assert } from "@concord/runtime";
import type { ObjectStore } from "./api.ts";
import { objectAcl, setObjectAcl } from "./acls.ts";
import { BucketCache } from "./bucket-cache.ts";
import { BucketTurns } from "./bucket-turns.ts";
import {
  bucketLocking,
  bucketTags,
  bucketVersioning,
  createBucket,
  deleteBucket,
  headBucket,
  listBuckets,
  setBucketDocument,
  setBucketLocking,
  setBucketTags,
  setBucketVersioning,
} from "./buckets.ts";
import type { ObjectStoreContext } from "./context.ts";
import { copyObject } from "./copy-object.ts";
import { deleteObject } from "./delete-object.ts";
import { getObject, headObject, headObjectParts } from "./get-object.ts";
import { Outbox } from "./events/outbox.ts";
import { OBJECT_LIMITS, SHARDS_MAX, type ObjectLimits } from "./limits.ts";
import { listObjects } from "./list-objects.ts";
import { listVersions } from "./list-versions.ts";
import { LockTime } from "./lock-time.ts";
import { objectLock, setObjectLegalHold, setObjectRetention } from "./object-locks.ts";
import { abortUpload } from "./multipart/abort-upload.ts";
import { completeUpload } from "./multipart/complete-upload.ts";
import { createUpload } from "./multipart/create-upload.ts";
import { listParts, listUploads } from "./multipart/list-uploads.ts";
import { copyPart, putPart } from "./multipart/put-part.ts";
import { putObject } from "./put-object.ts";
import { objectTags, setObjectTags } from "./tags.ts";
import { bucketUsage } from "./usage.ts";

/** The context of a store; what is left out of `limits` is as in OBJECT_LIMITS. */
export function objectStoreContext(
  parts: Omit<ObjectStoreContext, "limits" | "buckets" | "turns" | "outbox" | "lockTime"> & { readonly limits?: Partial<ObjectLimits> },
): ObjectStoreContext {
  const limits = { ...OBJECT_LIMITS, ...parts.limits };
  assert(parts.shards >= 1 && parts.shards <= SHARDS_MAX, "a bucket has shards");
  assert(limits.partPageRows >= 1 && limits.listPageRows >= 1, "a page has rows");
  assert(limits.garbageGraceMs >= limits.longestRequestMs, "garbage waits at least as long as the longest request (OGD10)");
  const context = { ...parts, limits, buckets: new BucketCache(limits.bucketsCached), turns: new BucketTurns(), outbox: new Outbox() };
  return { ...context, lockTime: new LockTime(context) };
}

/** The store of one gateway. Several may share its metadata and data (OG13). */
export function createObjectStore(context: ObjectStoreContext): ObjectStore {
  return {
    judgedBy: (bucket, settings, cause = context.cause) =>
      createObjectStore({ ...context, judged: { bucket, settings }, ...(cause === undefined ? {} : { cause }) }),
    until: (signal) => createObjectStore({ ...context, signal }),
    tracedBy: (span) => createObjectStore({ ...context, span }),
    createBucket: (request) => createBucket(context, request),
    headBucket: (bucket) => headBucket(context, bucket),
    listBuckets: (tenant) => listBuckets(context, tenant),
    deleteBucket: (bucket) => deleteBucket(context, bucket),
    bucketTags: (bucket) => bucketTags(context, bucket),
    setBucketTags: (bucket, tags) => setBucketTags(context, bucket, tags),
    bucketVersioning: (bucket) => bucketVersioning(context, bucket),
    setBucketVersioning: (bucket, versioning) => setBucketVersioning(context, bucket, versioning),
    bucketLocking: (bucket) => bucketLocking(context, bucket),
    setBucketLocking: (bucket, locking) => setBucketLocking(context, bucket, locking),
    setBucketDocument: (request) => setBucketDocument(context, request),
    bucketUsage: (bucket) => bucketUsage(context, bucket),
    putObject: (request) => putObject(context, request),
    getObject: (request) => getObject(context, request),
    headObject: (request) => headObject(context, request),
    headObjectParts: (request) => headObjectParts(context, request),
    deleteObject: (request) => deleteObject(context, request),
    listObjects: (request) => listObjects(context, request),
    listVersions: (request) => listVersions(context, request),
    objectTags: (request) => objectTags(context, request),
    setObjectTags: (request) => setObjectTags(context, request),
    objectAcl: (request) => objectAcl(context, request),
    setObjectAcl: (request) => setObjectAcl(context, request),
    objectLock: (request) => objectLock(context, request),
    setObjectRetention: (request) => setObjectRetention(context, request),
    setObjectLegalHold: (request) => setObjectLegalHold(context, request),
    copyObject: (request) => copyObject(context, request),
    createUpload: (request) => createUpload(context, request),
    putPart: (request) => putPart(context, request),
    copyPart: (request) => copyPart(context, request),
    listParts: (request) => listParts(context, request),
    listUploads: (request) => listUploads(context, request),
    completeUpload: (request) => completeUpload(context, request),
    abortUpload: (request) => abortUpload(context, request),
  };
}

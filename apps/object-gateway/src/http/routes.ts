// Maps requests to operations, and lists the parameters and headers each accepts. Anything a row does not name gets NotImplemented: never
// a success that did less than was asked (docs/design/objects.md, S3 surface).
import { REDIRECT_HEADER } from "@concord/objects";
import {
  CHECKSUM_ALGORITHMS,
  checksumHeader,
  CUSTOMER_KEY_HEADERS,
  ENCRYPTION_HEADERS,
  SOURCE_KEY_HEADERS,
  type Fields,
} from "@concord/s3";
import { getBucketAccelerateConfiguration, getBucketLogging, getBucketReplication, getBucketRequestPayment } from "./absent-settings.ts";
import { deleteBucketWebsite, getBucketWebsite, putBucketWebsite } from "./websites.ts";
import {
  deleteBucketOwnershipControls,
  getBucketAcl,
  getBucketOwnershipControls,
  getObjectAcl,
  putBucketAcl,
  putBucketOwnershipControls,
  putObjectAcl,
} from "./acls.ts";
import {
  abortMultipartUpload,
  completeMultipartUpload,
  createMultipartUpload,
  listMultipartUploads,
  listParts,
  uploadPart,
  uploadPartCopy,
} from "./multipart.ts";
import type { Operation } from "./context.ts";
import { copyObject, deleteObject, deleteObjects, putObject } from "./write-object.ts";
import {
  createBucket,
  deleteBucket,
  getBucketLocation,
  getBucketVersioning,
  headBucket,
  listBuckets,
  putBucketVersioning,
} from "./bucket.ts";
import {
  deleteBucketPolicy,
  deletePublicAccessBlock,
  getBucketPolicy,
  getBucketPolicyStatus,
  getPublicAccessBlock,
  putBucketPolicy,
  putPublicAccessBlock,
} from "./bucket-access.ts";
import {
  deleteBucketTagging,
  deleteObjectTagging,
  getBucketTagging,
  getObjectTagging,
  putBucketTagging,
  putObjectTagging,
} from "./tagging.ts";
import { deleteBucketCors, getBucketCors, putBucketCors } from "./cors.ts";
import { deleteBucketEncryption, getBucketEncryption, putBucketEncryption } from "./encryption.ts";
import { getObject } from "./get-object.ts";
import {
  getObjectLegalHold,
  getObjectLockConfiguration,
  getObjectRetention,
  putObjectLegalHold,
  putObjectLockConfiguration,
  putObjectRetention,
} from "./object-lock.ts";
import { getBucketNotificationConfiguration, putBucketNotificationConfiguration } from "./notification.ts";
import { deleteBucketLifecycle, getBucketLifecycleConfiguration, putBucketLifecycleConfiguration } from "./lifecycle.ts";
import { getObjectAttributes } from "./get-object-attributes.ts";
import { headObject } from "./head-object.ts";
import { listObjects } from "./list-objects.ts";
import { listObjectVersions } from "./list-object-versions.ts";
import { listObjectsV2 } from "./list-objects-v2.ts";

export type Level = "service" | "bucket" | "object";

export interface Route {
  readonly operation: string;
  readonly method: "GET" | "HEAD" | "PUT" | "POST" | "DELETE";
  readonly level: Level;
  /** Query names, all of which make a request this one. */
  readonly picks: readonly string[];
  /** Only with x-amz-copy-source, or only without. */
  readonly copies: boolean;
  /** Further query names it honours. */
  readonly query: readonly string[];
  /** x-amz-* headers it honours besides those of every request; a trailing "*" stands for the rest of a name. */
  readonly headers: readonly string[];
  /** If-Match and If-None-Match are honoured. */
  readonly conditional: boolean;
  /** Without: a body is refused. */
  readonly body: boolean;
  /** A bucket that the caller is about to make needs no owner. */
  readonly makesBucket: boolean;
  readonly handle: Operation;
}

type Options = Partial<Pick<Route, "picks" | "copies" | "query" | "headers" | "conditional" | "body" | "makesBucket">>;

const LIST = ["prefix", "delimiter", "max-keys", "encoding-type"];
const OVERRIDES = [
  "response-content-type",
  "response-content-language",
  "response-expires",
  "response-cache-control",
  "response-content-disposition",
  "response-content-encoding",
];
const PART = ["partNumber", "uploadId"];
const READ = {
  query: [...OVERRIDES, "partNumber", "versionId"],
  headers: ["x-amz-checksum-mode", ...CUSTOMER_KEY_HEADERS],
  conditional: true,
};
/** By name: a checksum that is not compared is refused, not passed over. */
const CHECKSUMS = [...CHECKSUM_ALGORITHMS.map(checksumHeader), "x-amz-checksum-algorithm", "x-amz-checksum-type"];
/** Checks of a body that passes. */
const CHECKED = [...CHECKSUMS, "x-amz-sdk-checksum-algorithm", "x-amz-trailer", "x-amz-decoded-content-length"];
/** Headers accepted on upload; features.ts checks each value. */
const GRANTS = ["x-amz-acl", "x-amz-grant-*"];
const LOCKED = ["x-amz-object-lock-mode", "x-amz-object-lock-retain-until-date", "x-amz-object-lock-legal-hold"];
const STORED = ["x-amz-meta-*", "x-amz-tagging", ...GRANTS, ...LOCKED, "x-amz-storage-class", REDIRECT_HEADER, ...ENCRYPTION_HEADERS];
const BYPASS = "x-amz-bypass-governance-retention";
const SOURCE_CONDITIONS = ["match", "none-match", "modified-since", "unmodified-since"].map((name) => `x-amz-copy-source-if-${name}`);
const SOURCE = ["x-amz-copy-source", ...SOURCE_CONDITIONS, "x-amz-source-expected-bucket-owner", ...SOURCE_KEY_HEADERS];

const route = (operation: string, method: Route["method"], level: Level, handle: Operation, options: Options = {}): Route => {
  const standard = { picks: [], copies: false, query: [], headers: [], conditional: false, body: false, makesBucket: false };
  return { operation, method, level, handle, ...standard, ...options };
};

export const ROUTES: readonly Route[] = [
  route("ListBuckets", "GET", "service", listBuckets, { query: ["max-buckets", "prefix", "continuation-token", "bucket-region"] }),

  route("CreateBucket", "PUT", "bucket", createBucket, {
    headers: [...GRANTS, "x-amz-object-ownership", "x-amz-bucket-object-lock-enabled", ...CHECKED],
    body: true,
    makesBucket: true,
  }),
  route("HeadBucket", "HEAD", "bucket", headBucket),
  route("DeleteBucket", "DELETE", "bucket", deleteBucket),
  route("GetBucketLocation", "GET", "bucket", getBucketLocation, { picks: ["location"] }),
  route("GetBucketVersioning", "GET", "bucket", getBucketVersioning, { picks: ["versioning"] }),
  route("PutBucketVersioning", "PUT", "bucket", putBucketVersioning, { picks: ["versioning"], headers: CHECKED, body: true }),
  route("GetBucketPolicy", "GET", "bucket", getBucketPolicy, { picks: ["policy"] }),
  route("PutBucketPolicy", "PUT", "bucket", putBucketPolicy, {
    picks: ["policy"],
    headers: [...CHECKED, "x-amz-confirm-remove-self-bucket-access"],
    body: true,
  }),
  route("DeleteBucketPolicy", "DELETE", "bucket", deleteBucketPolicy, { picks: ["policy"] }),
  route("GetBucketPolicyStatus", "GET", "bucket", getBucketPolicyStatus, { picks: ["policyStatus"] }),
  route("GetBucketCors", "GET", "bucket", getBucketCors, { picks: ["cors"] }),
  route("PutBucketCors", "PUT", "bucket", putBucketCors, { picks: ["cors"], headers: CHECKED, body: true }),
  route("DeleteBucketCors", "DELETE", "bucket", deleteBucketCors, { picks: ["cors"] }),
  route("GetPublicAccessBlock", "GET", "bucket", getPublicAccessBlock, { picks: ["publicAccessBlock"] }),
  route("PutPublicAccessBlock", "PUT", "bucket", putPublicAccessBlock, { picks: ["publicAccessBlock"], headers: CHECKED, body: true }),
  route("DeletePublicAccessBlock", "DELETE", "bucket", deletePublicAccessBlock, { picks: ["publicAccessBlock"] }),
  route("GetBucketOwnershipControls", "GET", "bucket", getBucketOwnershipControls, { picks: ["ownershipControls"] }),
  route("PutBucketOwnershipControls", "PUT", "bucket", putBucketOwnershipControls, {
    picks: ["ownershipControls"],
    headers: CHECKED,
    body: true,
  }),
  route("DeleteBucketOwnershipControls", "DELETE", "bucket", deleteBucketOwnershipControls, { picks: ["ownershipControls"] }),
  route("GetBucketAcl", "GET", "bucket", getBucketAcl, { picks: ["acl"] }),
  route("PutBucketAcl", "PUT", "bucket", putBucketAcl, { picks: ["acl"], headers: [...CHECKED, ...GRANTS], body: true }),
  route("GetBucketTagging", "GET", "bucket", getBucketTagging, { picks: ["tagging"] }),
  route("PutBucketTagging", "PUT", "bucket", putBucketTagging, { picks: ["tagging"], headers: CHECKED, body: true }),
  route("DeleteBucketTagging", "DELETE", "bucket", deleteBucketTagging, { picks: ["tagging"] }),
  route("GetBucketLifecycleConfiguration", "GET", "bucket", getBucketLifecycleConfiguration, { picks: ["lifecycle"] }),
  route("PutBucketLifecycleConfiguration", "PUT", "bucket", putBucketLifecycleConfiguration, {
    picks: ["lifecycle"],
    headers: [...CHECKED, "x-amz-transition-default-minimum-object-size"],
    body: true,
  }),
  route("DeleteBucketLifecycle", "DELETE", "bucket", deleteBucketLifecycle, { picks: ["lifecycle"] }),
  route("GetBucketEncryption", "GET", "bucket", getBucketEncryption, { picks: ["encryption"] }),
  route("PutBucketEncryption", "PUT", "bucket", putBucketEncryption, { picks: ["encryption"], headers: CHECKED, body: true }),
  route("DeleteBucketEncryption", "DELETE", "bucket", deleteBucketEncryption, { picks: ["encryption"] }),
  route("GetObjectLockConfiguration", "GET", "bucket", getObjectLockConfiguration, { picks: ["object-lock"] }),
  route("PutObjectLockConfiguration", "PUT", "bucket", putObjectLockConfiguration, {
    picks: ["object-lock"],
    headers: CHECKED,
    body: true,
  }),
  route("GetBucketReplication", "GET", "bucket", getBucketReplication, { picks: ["replication"] }),
  route("GetBucketWebsite", "GET", "bucket", getBucketWebsite, { picks: ["website"] }),
  route("PutBucketWebsite", "PUT", "bucket", putBucketWebsite, { picks: ["website"], headers: CHECKED, body: true }),
  route("DeleteBucketWebsite", "DELETE", "bucket", deleteBucketWebsite, { picks: ["website"] }),
  route("GetBucketNotificationConfiguration", "GET", "bucket", getBucketNotificationConfiguration, { picks: ["notification"] }),
  route("PutBucketNotificationConfiguration", "PUT", "bucket", putBucketNotificationConfiguration, {
    picks: ["notification"],
    headers: [...CHECKED, "x-amz-skip-destination-validation"],
    body: true,
  }),
  route("GetBucketLogging", "GET", "bucket", getBucketLogging, { picks: ["logging"] }),
  route("GetBucketAccelerateConfiguration", "GET", "bucket", getBucketAccelerateConfiguration, { picks: ["accelerate"] }),
  route("GetBucketRequestPayment", "GET", "bucket", getBucketRequestPayment, { picks: ["requestPayment"] }),
  route("ListObjects", "GET", "bucket", listObjects, { query: [...LIST, "marker"], headers: ["x-amz-optional-object-attributes"] }),
  route("ListObjectsV2", "GET", "bucket", listObjectsV2, {
    picks: ["list-type"],
    query: [...LIST, "continuation-token", "start-after", "fetch-owner"],
    headers: ["x-amz-optional-object-attributes"],
  }),
  route("ListObjectVersions", "GET", "bucket", listObjectVersions, {
    picks: ["versions"],
    query: [...LIST, "key-marker", "version-id-marker"],
    headers: ["x-amz-optional-object-attributes"],
  }),
  route("ListMultipartUploads", "GET", "bucket", listMultipartUploads, {
    picks: ["uploads"],
    query: ["prefix", "delimiter", "max-uploads", "encoding-type", "key-marker", "upload-id-marker"],
  }),
  route("DeleteObjects", "POST", "bucket", deleteObjects, { picks: ["delete"], headers: [...CHECKED, BYPASS], body: true }),

  route("GetObject", "GET", "object", getObject, READ),
  route("HeadObject", "HEAD", "object", headObject, READ),
  route("PutObject", "PUT", "object", putObject, { headers: [...CHECKED, ...STORED], conditional: true, body: true }),
  route("CopyObject", "PUT", "object", copyObject, {
    copies: true,
    headers: [...SOURCE, ...STORED, "x-amz-metadata-directive", "x-amz-tagging-directive", "x-amz-checksum-algorithm"],
    conditional: true,
  }),
  route("DeleteObject", "DELETE", "object", deleteObject, {
    query: ["versionId"],
    headers: ["x-amz-if-match-last-modified-time", "x-amz-if-match-size", BYPASS],
    conditional: true,
  }),
  route("GetObjectAttributes", "GET", "object", getObjectAttributes, {
    picks: ["attributes"],
    query: ["versionId"],
    headers: ["x-amz-object-attributes", "x-amz-max-parts", "x-amz-part-number-marker", ...CUSTOMER_KEY_HEADERS],
    conditional: true,
  }),
  route("GetObjectAcl", "GET", "object", getObjectAcl, { picks: ["acl"], query: ["versionId"] }),
  route("PutObjectAcl", "PUT", "object", putObjectAcl, {
    picks: ["acl"],
    query: ["versionId"],
    headers: [...CHECKED, ...GRANTS],
    body: true,
  }),
  route("GetObjectRetention", "GET", "object", getObjectRetention, { picks: ["retention"], query: ["versionId"] }),
  route("PutObjectRetention", "PUT", "object", putObjectRetention, {
    picks: ["retention"],
    query: ["versionId"],
    headers: [...CHECKED, BYPASS],
    body: true,
  }),
  route("GetObjectLegalHold", "GET", "object", getObjectLegalHold, { picks: ["legal-hold"], query: ["versionId"] }),
  route("PutObjectLegalHold", "PUT", "object", putObjectLegalHold, {
    picks: ["legal-hold"],
    query: ["versionId"],
    headers: CHECKED,
    body: true,
  }),
  route("GetObjectTagging", "GET", "object", getObjectTagging, { picks: ["tagging"], query: ["versionId"] }),
  route("PutObjectTagging", "PUT", "object", putObjectTagging, { picks: ["tagging"], query: ["versionId"], headers: CHECKED, body: true }),
  route("DeleteObjectTagging", "DELETE", "object", deleteObjectTagging, { picks: ["tagging"], query: ["versionId"] }),

  route("CreateMultipartUpload", "POST", "object", createMultipartUpload, {
    picks: ["uploads"],
    headers: [...STORED, "x-amz-checksum-algorithm", "x-amz-checksum-type"],
  }),
  route("UploadPart", "PUT", "object", uploadPart, { picks: PART, headers: [...CHECKED, ...CUSTOMER_KEY_HEADERS], body: true }),
  route("UploadPartCopy", "PUT", "object", uploadPartCopy, {
    picks: PART,
    copies: true,
    headers: [...SOURCE, "x-amz-copy-source-range", ...CUSTOMER_KEY_HEADERS],
  }),
  route("ListParts", "GET", "object", listParts, {
    picks: ["uploadId"],
    query: ["max-parts", "part-number-marker", "encoding-type"],
    headers: CUSTOMER_KEY_HEADERS,
  }),
  route("CompleteMultipartUpload", "POST", "object", completeMultipartUpload, {
    picks: ["uploadId"],
    headers: [...CHECKSUMS, "x-amz-mp-object-size", ...CUSTOMER_KEY_HEADERS],
    conditional: true,
    body: true,
  }),
  route("AbortMultipartUpload", "DELETE", "object", abortMultipartUpload, { picks: ["uploadId"] }),
];

/** An upload by a form: of a key, which its fields name. Not found by its address but by its content type. */
export const FORM_ROUTE: Omit<Route, "handle"> = {
  operation: "PostObject",
  method: "POST",
  level: "object",
  picks: [],
  copies: false,
  query: [],
  headers: [
    "x-amz-meta-*",
    "x-amz-tagging",
    "x-amz-acl",
    ...LOCKED,
    "x-amz-storage-class",
    REDIRECT_HEADER,
    ...CHECKSUMS,
    ...ENCRYPTION_HEADERS,
  ],
  conditional: false,
  body: true,
  makesBucket: false,
};

/** Undefined: no such operation at all. Of several the one that is picked by most names. */
export function routeOf(method: string, level: Level, query: Fields, copies: boolean): Route | undefined {
  let found: Route | undefined;
  for (const one of ROUTES) {
    if (one.method !== method || one.level !== level || one.copies !== copies) continue;
    if (!one.picks.every((name) => query.has(name))) continue;
    if (found === undefined || one.picks.length > found.picks.length) found = one;
  }
  return found;
}

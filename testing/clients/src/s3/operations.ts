// Every operation of the S3 API reference, in an order in which each can succeed. A test compares the names with the commands of the
// newest SDK, which is generated from the reference.
import { createHash } from "node:crypto";
import { operation as op, type OperationCase } from "./operation.ts";

const TAGS = "<Tagging><TagSet><Tag><Key>team</Key><Value>blue</Value></Tag></TagSet></Tagging>";
const TAG_SET = { TagSet: [{ Key: "team", Value: "blue" }] };
const POLICY =
  '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"{tenant}"},"Action":"s3:GetObject","Resource":"arn:aws:s3:::{bucket}/*"}]}';
const CORS =
  "<CORSConfiguration><CORSRule><AllowedOrigin>https://page.test</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule></CORSConfiguration>";
const BLOCK = "<PublicAccessBlockConfiguration><BlockPublicPolicy>true</BlockPublicPolicy></PublicAccessBlockConfiguration>";
const OWNERSHIP = "<OwnershipControls><Rule><ObjectOwnership>ObjectWriter</ObjectOwnership></Rule></OwnershipControls>";
const LIFECYCLE =
  "<LifecycleConfiguration><Rule><ID>old</ID><Filter><Prefix>logs/</Prefix></Filter><Status>Enabled</Status><Expiration><Days>3</Days></Expiration></Rule></LifecycleConfiguration>";
const ENCRYPTION =
  "<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule></ServerSideEncryptionConfiguration>";
const WEBSITE = "<WebsiteConfiguration><IndexDocument><Suffix>index.html</Suffix></IndexDocument></WebsiteConfiguration>";
const LOCK = "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>";
const COMPLETE = '<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>"{etag}"</ETag></Part></CompleteMultipartUpload>';
const RETAIN_UNTIL = new Date(Date.now() + 86_400_000);
const RETENTION = `<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>${RETAIN_UNTIL.toISOString()}</RetainUntilDate></Retention>`;
const VERSIONING = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
const DELETE = "<Delete><Object><Key>gone</Key></Object></Delete>";
const DELETE_MD5 = createHash("md5").update(DELETE).digest("base64");

const ETAG = { as: "etag", member: "ETag", raw: /<ETag>"([0-9a-f]+)"<|etag: "([0-9a-f]+)"/ } as const;
const ETAG_AFTER_QUOT = { ...ETAG, raw: /<ETag>(?:&quot;|")([0-9a-f]+)|etag: "([0-9a-f]+)"/ } as const;
const UPLOAD = { as: "uploadId", member: "UploadId", raw: /<UploadId>([^<]+)</ } as const;
const VERSION = { as: "versionId", member: "VersionId", raw: /x-amz-version-id: (\S+)/ } as const;

const BUCKETS: readonly OperationCase[] = [
  op("buckets", "CreateBucket", "PUT /{bucket}"),
  op("buckets", "HeadBucket", "HEAD /{bucket}"),
  op("buckets", "ListBuckets", "GET /", { says: /-bucket/ }),
  op("buckets", "GetBucketLocation", "GET /{bucket}?location"),
];

const OBJECTS: readonly OperationCase[] = [
  op("objects", "PutObject", "PUT /{bucket}/k", { body: "some text", input: { Body: "some text" } }),
  op("objects", "GetObject", "GET /{bucket}/k", { says: /some text/ }),
  op("objects", "HeadObject", "HEAD /{bucket}/k"),
  op("objects", "CopyObject", "PUT /{bucket}/copy", {
    headers: { "x-amz-copy-source": "/{bucket}/k" },
    input: ({ bucket }) => ({ Key: "copy", CopySource: `${bucket}/k` }),
    says: /ETag/,
  }),
  op("objects", "GetObjectAttributes", "GET /{bucket}/k?attributes", {
    headers: { "x-amz-object-attributes": "ObjectSize,ETag" },
    input: { ObjectAttributes: ["ObjectSize", "ETag"] },
    says: /ObjectSize\D+9\b/,
  }),
  op("objects", "DeleteObject", "DELETE /{bucket}/copy", { input: { Key: "copy" } }),
  op("objects", "DeleteObjects", "POST /{bucket}?delete", {
    body: DELETE,
    headers: { "content-md5": DELETE_MD5 },
    input: { Delete: { Objects: [{ Key: "gone" }] } },
    says: /gone/,
  }),
];

const LISTS: readonly OperationCase[] = [
  op("lists", "ListObjects", "GET /{bucket}", { says: /Key\W+k\b/ }),
  op("lists", "ListObjectsV2", "GET /{bucket}?list-type=2", { says: /Key\W+k\b/ }),
];

const UPLOADS: readonly OperationCase[] = [
  op("multipart uploads", "CreateMultipartUpload", "POST /{bucket}/m?uploads", { input: { Key: "m" }, learns: UPLOAD }),
  op("multipart uploads", "ListMultipartUploads", "GET /{bucket}?uploads", { says: /UploadId/ }),
  op("multipart uploads", "UploadPart", "PUT /{bucket}/m?partNumber=2&uploadId={uploadId}", {
    body: "two",
    input: ({ uploadId }) => ({ Key: "m", PartNumber: 2, UploadId: uploadId, Body: "two" }),
    learns: ETAG,
  }),
  op("multipart uploads", "UploadPartCopy", "PUT /{bucket}/m?partNumber=1&uploadId={uploadId}", {
    headers: { "x-amz-copy-source": "/{bucket}/k", "x-amz-copy-source-range": "bytes=0-3" },
    input: ({ bucket, uploadId }) => ({
      Key: "m",
      PartNumber: 1,
      UploadId: uploadId,
      CopySource: `${bucket}/k`,
      CopySourceRange: "bytes=0-3",
    }),
    learns: { ...ETAG_AFTER_QUOT, member: "CopyPartResult.ETag" },
  }),
  op("multipart uploads", "ListParts", "GET /{bucket}/m?uploadId={uploadId}", {
    input: ({ uploadId }) => ({ Key: "m", UploadId: uploadId }),
    says: /PartNumber\D+2\b/,
  }),
  op("multipart uploads", "CompleteMultipartUpload", "POST /{bucket}/m?uploadId={uploadId}", {
    body: COMPLETE,
    input: ({ uploadId, etag }) => ({
      Key: "m",
      UploadId: uploadId,
      MultipartUpload: { Parts: [{ PartNumber: 1, ETag: `"${etag}"` }] },
    }),
    says: /-1/,
  }),
  op("multipart uploads", "CreateMultipartUpload", "POST /{bucket}/m?uploads", { input: { Key: "m" }, learns: UPLOAD }),
  op("multipart uploads", "AbortMultipartUpload", "DELETE /{bucket}/m?uploadId={uploadId}", {
    input: ({ uploadId }) => ({ Key: "m", UploadId: uploadId }),
  }),
];

const VERSIONS: readonly OperationCase[] = [
  op("versions", "PutBucketVersioning", "PUT /{bucket}?versioning", {
    body: VERSIONING,
    input: { VersioningConfiguration: { Status: "Enabled" } },
  }),
  op("versions", "GetBucketVersioning", "GET /{bucket}?versioning", { says: /Enabled/ }),
  op("versions", "PutObject", "PUT /{bucket}/k", { body: "newer text", input: { Body: "newer text" }, learns: VERSION }),
  op("versions", "ListObjectVersions", "GET /{bucket}?versions", { says: /VersionId\W+null/ }),
  op("versions", "GetObject", "GET /{bucket}/k?versionId={versionId}", {
    input: ({ versionId }) => ({ VersionId: versionId }),
    says: /newer text/,
  }),
];

const TAGGING: readonly OperationCase[] = [
  op("tags", "PutBucketTagging", "PUT /{bucket}?tagging", { body: TAGS, input: { Tagging: TAG_SET } }),
  op("tags", "GetBucketTagging", "GET /{bucket}?tagging", { says: /blue/ }),
  op("tags", "DeleteBucketTagging", "DELETE /{bucket}?tagging"),
  op("tags", "PutObjectTagging", "PUT /{bucket}/k?tagging", { body: TAGS, input: { Tagging: TAG_SET } }),
  op("tags", "GetObjectTagging", "GET /{bucket}/k?tagging", { says: /blue/ }),
  op("tags", "DeleteObjectTagging", "DELETE /{bucket}/k?tagging"),
];

const A = "access: policies, ACLs, ownership";
const ACCESS: readonly OperationCase[] = [
  op(A, "PutBucketPolicy", "PUT /{bucket}?policy", {
    body: POLICY,
    input: ({ bucket, tenant }) => ({ Policy: POLICY.replace("{bucket}", bucket).replace("{tenant}", tenant) }),
  }),
  op(A, "GetBucketPolicy", "GET /{bucket}?policy", { says: /s3:GetObject/ }),
  op(A, "GetBucketPolicyStatus", "GET /{bucket}?policyStatus", { says: /IsPublic\W+false/i }),
  op(A, "DeleteBucketPolicy", "DELETE /{bucket}?policy"),
  op(A, "PutPublicAccessBlock", "PUT /{bucket}?publicAccessBlock", {
    body: BLOCK,
    input: { PublicAccessBlockConfiguration: { BlockPublicPolicy: true } },
  }),
  op(A, "GetPublicAccessBlock", "GET /{bucket}?publicAccessBlock", { says: /BlockPublicPolicy\W+true/ }),
  op(A, "DeletePublicAccessBlock", "DELETE /{bucket}?publicAccessBlock"),
  op(A, "PutBucketOwnershipControls", "PUT /{bucket}?ownershipControls", {
    body: OWNERSHIP,
    input: { OwnershipControls: { Rules: [{ ObjectOwnership: "ObjectWriter" }] } },
  }),
  op(A, "GetBucketOwnershipControls", "GET /{bucket}?ownershipControls", { says: /ObjectWriter/ }),
  op(A, "PutBucketAcl", "PUT /{bucket}?acl", { headers: { "x-amz-acl": "authenticated-read" }, input: { ACL: "authenticated-read" } }),
  op(A, "GetBucketAcl", "GET /{bucket}?acl", { says: /AuthenticatedUsers/ }),
  op(A, "PutObjectAcl", "PUT /{bucket}/k?acl", { headers: { "x-amz-acl": "public-read" }, input: { ACL: "public-read" } }),
  op(A, "GetObjectAcl", "GET /{bucket}/k?acl", { says: /AllUsers/ }),
  op(A, "PutBucketAcl", "PUT /{bucket}?acl", { headers: { "x-amz-acl": "private" }, input: { ACL: "private" } }),
  op(A, "DeleteBucketOwnershipControls", "DELETE /{bucket}?ownershipControls"),
];

const C = "CORS and browser forms";
const BROWSERS: readonly OperationCase[] = [
  op(C, "PutBucketCors", "PUT /{bucket}?cors", {
    body: CORS,
    input: { CORSConfiguration: { CORSRules: [{ AllowedOrigins: ["https://page.test"], AllowedMethods: ["GET"] }] } },
  }),
  op(C, "GetBucketCors", "GET /{bucket}?cors", { says: /page\.test/ }),
  op(C, "Preflight", "OPTIONS /{bucket}/k", {
    rawOnly: true,
    headers: { origin: "https://page.test", "access-control-request-method": "GET" },
    says: /access-control-allow-origin: https:\/\/page\.test/,
  }),
  op(C, "DeleteBucketCors", "DELETE /{bucket}?cors"),
  op(C, "PostObject", "POST /{bucket}", { rawOnly: true, form: true }),
];

const LIFECYCLES: readonly OperationCase[] = [
  op("lifecycle", "PutBucketLifecycleConfiguration", "PUT /{bucket}?lifecycle", {
    body: LIFECYCLE,
    input: {
      LifecycleConfiguration: { Rules: [{ ID: "old", Filter: { Prefix: "logs/" }, Status: "Enabled", Expiration: { Days: 3 } }] },
    },
  }),
  op("lifecycle", "GetBucketLifecycleConfiguration", "GET /{bucket}?lifecycle", { says: /logs\// }),
  op("lifecycle", "DeleteBucketLifecycle", "DELETE /{bucket}?lifecycle"),
];

const ENCRYPTIONS: readonly OperationCase[] = [
  op("encryption", "PutBucketEncryption", "PUT /{bucket}?encryption", {
    body: ENCRYPTION,
    input: { ServerSideEncryptionConfiguration: { Rules: [{ ApplyServerSideEncryptionByDefault: { SSEAlgorithm: "AES256" } }] } },
  }),
  op("encryption", "GetBucketEncryption", "GET /{bucket}?encryption", {
    says: /AES256/,
    refusals: ["404 ServerSideEncryptionConfigurationNotFoundError"],
  }),
  op("encryption", "DeleteBucketEncryption", "DELETE /{bucket}?encryption"),
  op("encryption", "UpdateObjectEncryption", "PUT /{bucket}/k?encryption"),
];

const LOCKS: readonly OperationCase[] = [
  op("object lock", "PutObjectLockConfiguration", "PUT /{bucket}?object-lock", {
    body: LOCK,
    input: { ObjectLockConfiguration: { ObjectLockEnabled: "Enabled" } },
  }),
  op("object lock", "GetObjectLockConfiguration", "GET /{bucket}?object-lock", {
    says: /Enabled/,
    refusals: ["404 ObjectLockConfigurationNotFoundError"],
  }),
  op("object lock", "PutObjectRetention", "PUT /{bucket}/k?retention", {
    body: RETENTION,
    input: { Retention: { Mode: "GOVERNANCE", RetainUntilDate: RETAIN_UNTIL } },
  }),
  op("object lock", "GetObjectRetention", "GET /{bucket}/k?retention", { says: /GOVERNANCE/ }),
  op("object lock", "PutObjectLegalHold", "PUT /{bucket}/k?legal-hold", {
    body: "<LegalHold><Status>ON</Status></LegalHold>",
    input: { LegalHold: { Status: "ON" } },
  }),
  op("object lock", "GetObjectLegalHold", "GET /{bucket}/k?legal-hold", { says: /ON/ }),
];

const N = "event notifications";
const NOTIFICATIONS: readonly OperationCase[] = [
  op(N, "PutBucketNotificationConfiguration", "PUT /{bucket}?notification", {
    body: "<NotificationConfiguration/>",
    input: { NotificationConfiguration: {} },
  }),
  op(N, "GetBucketNotificationConfiguration", "GET /{bucket}?notification"),
];

const W = "static websites";
const WEBSITES: readonly OperationCase[] = [
  op(W, "PutBucketWebsite", "PUT /{bucket}?website", {
    body: WEBSITE,
    input: { WebsiteConfiguration: { IndexDocument: { Suffix: "index.html" } } },
  }),
  op(W, "GetBucketWebsite", "GET /{bucket}?website", { says: /index\.html/, refusals: ["404 NoSuchWebsiteConfiguration"] }),
  op(W, "DeleteBucketWebsite", "DELETE /{bucket}?website"),
];

const O = "other settings of buckets";
const named = (parameter: string, name: string): readonly OperationCase[] => [
  op(O, `PutBucket${name}Configuration`, `PUT /{bucket}?${parameter}&id=one`, { input: { Id: "one" } }),
  op(O, `GetBucket${name}Configuration`, `GET /{bucket}?${parameter}&id=one`, { input: { Id: "one" } }),
  op(O, `ListBucket${name}Configurations`, `GET /{bucket}?${parameter}`),
  op(O, `DeleteBucket${name}Configuration`, `DELETE /{bucket}?${parameter}&id=one`, { input: { Id: "one" } }),
];
const OTHERS: readonly OperationCase[] = [
  op(O, "GetBucketAccelerateConfiguration", "GET /{bucket}?accelerate"),
  op(O, "PutBucketAccelerateConfiguration", "PUT /{bucket}?accelerate"),
  op(O, "GetBucketLogging", "GET /{bucket}?logging"),
  op(O, "PutBucketLogging", "PUT /{bucket}?logging"),
  op(O, "GetBucketReplication", "GET /{bucket}?replication", { refusals: ["404 ReplicationConfigurationNotFoundError"] }),
  op(O, "PutBucketReplication", "PUT /{bucket}?replication"),
  op(O, "DeleteBucketReplication", "DELETE /{bucket}?replication"),
  op(O, "GetBucketRequestPayment", "GET /{bucket}?requestPayment", { says: /BucketOwner/ }),
  op(O, "PutBucketRequestPayment", "PUT /{bucket}?requestPayment"),
  ...named("analytics", "Analytics"),
  ...named("intelligent-tiering", "IntelligentTiering"),
  ...named("inventory", "Inventory"),
  ...named("metrics", "Metrics"),
];

const M = "metadata tables, annotations, attribute-based access";
const ANNOTATION = { AnnotationName: "n" };
const TABLES: readonly OperationCase[] = [
  op(M, "CreateBucketMetadataConfiguration", "POST /{bucket}?metadataConfiguration"),
  op(M, "GetBucketMetadataConfiguration", "GET /{bucket}?metadataConfiguration"),
  op(M, "DeleteBucketMetadataConfiguration", "DELETE /{bucket}?metadataConfiguration"),
  op(M, "CreateBucketMetadataTableConfiguration", "POST /{bucket}?metadataTable"),
  op(M, "GetBucketMetadataTableConfiguration", "GET /{bucket}?metadataTable"),
  op(M, "DeleteBucketMetadataTableConfiguration", "DELETE /{bucket}?metadataTable"),
  op(M, "UpdateBucketMetadataAnnotationTableConfiguration", "PUT /{bucket}?metadataAnnotationTable"),
  op(M, "UpdateBucketMetadataInventoryTableConfiguration", "PUT /{bucket}?metadataInventoryTable"),
  op(M, "UpdateBucketMetadataJournalTableConfiguration", "PUT /{bucket}?metadataJournalTable"),
  op(M, "PutObjectAnnotation", "PUT /{bucket}/k?annotation&annotationName=n", { input: ANNOTATION }),
  op(M, "GetObjectAnnotation", "GET /{bucket}/k?annotation&annotationName=n", { input: ANNOTATION }),
  op(M, "ListObjectAnnotations", "GET /{bucket}/k?annotation"),
  op(M, "DeleteObjectAnnotation", "DELETE /{bucket}/k?annotation&annotationName=n", { input: ANNOTATION }),
  op(M, "PutBucketAbac", "PUT /{bucket}?abac"),
  op(M, "GetBucketAbac", "GET /{bucket}?abac"),
];

const D = "directory buckets, archives, queries";
/** AWS serves it under another name, signed for another service. */
const OTHER_SERVICE = { refusals: ["400 AuthorizationHeaderMalformed", "412 PreconditionFailed"] };
const FOREIGN: readonly OperationCase[] = [
  op(D, "CreateSession", "GET /{bucket}?session"),
  op(D, "ListDirectoryBuckets", "GET /?max-directory-buckets=10", { ...OTHER_SERVICE, input: { MaxDirectoryBuckets: 10 } }),
  op(D, "RenameObject", "PUT /{bucket}/other?renameObject", {
    headers: { "x-amz-rename-source": "k" },
    input: { Key: "other", RenameSource: "k" },
  }),
  op(D, "RestoreObject", "POST /{bucket}/k?restore"),
  op(D, "SelectObjectContent", "POST /{bucket}/k?select&select-type=2"),
  op(D, "GetObjectTorrent", "GET /{bucket}/k?torrent"),
  op(D, "WriteGetObjectResponse", "POST /WriteGetObjectResponse", {
    ...OTHER_SERVICE,
    headers: { "x-amz-request-route": "r", "x-amz-request-token": "t" },
    input: { RequestRoute: "r", RequestToken: "t" },
  }),
];

const REMOVALS: readonly OperationCase[] = [
  op("buckets", "CreateBucket", "PUT /{spare}", { input: ({ spare }) => ({ Bucket: spare }) }),
  op("buckets", "DeleteBucket", "DELETE /{spare}", { input: ({ spare }) => ({ Bucket: spare }) }),
];

export const OPERATIONS: readonly OperationCase[] = [
  BUCKETS,
  OBJECTS,
  LISTS,
  UPLOADS,
  VERSIONS,
  TAGGING,
  ACCESS,
  BROWSERS,
  LIFECYCLES,
  ENCRYPTIONS,
  LOCKS,
  NOTIFICATIONS,
  WEBSITES,
  OTHERS,
  TABLES,
  FOREIGN,
  REMOVALS,
].flat();

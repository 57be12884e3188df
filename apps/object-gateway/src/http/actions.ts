// Which actions of S3's policies an operation is. Every operation on a bucket has a row; what it needs for each of many keys, or of the
// source of a copy, it asks for itself.
import type { S3Action } from "@concord/s3";

interface OperationActions {
  readonly always: readonly S3Action[];
  /** Instead, with versionId. */
  readonly ofVersion?: readonly S3Action[];
  /** Besides, with x-amz-tagging. */
  readonly withTags?: S3Action;
  /** Besides, with x-amz-acl: whose the object is, is a right of its own. */
  readonly withAcl?: S3Action;
}

const of = (...always: readonly S3Action[]): OperationActions => ({ always });
const byVersion = (always: readonly S3Action[], ofVersion: readonly S3Action[]): OperationActions => ({ always, ofVersion });
const write: OperationActions = { always: ["s3:PutObject"], withTags: "s3:PutObjectTagging", withAcl: "s3:PutObjectAcl" };
const read = byVersion(["s3:GetObject"], ["s3:GetObjectVersion"]);

export const OPERATION_ACTIONS: Readonly<Record<string, OperationActions>> = {
  HeadBucket: of("s3:ListBucket"),
  DeleteBucket: of("s3:DeleteBucket"),
  GetBucketLocation: of("s3:GetBucketLocation"),
  GetBucketVersioning: of("s3:GetBucketVersioning"),
  PutBucketVersioning: of("s3:PutBucketVersioning"),
  GetBucketTagging: of("s3:GetBucketTagging"),
  PutBucketTagging: of("s3:PutBucketTagging"),
  DeleteBucketTagging: of("s3:PutBucketTagging"),
  GetBucketPolicy: of("s3:GetBucketPolicy"),
  PutBucketPolicy: of("s3:PutBucketPolicy"),
  DeleteBucketPolicy: of("s3:DeleteBucketPolicy"),
  GetBucketPolicyStatus: of("s3:GetBucketPolicyStatus"),
  GetBucketCors: of("s3:GetBucketCORS"),
  PutBucketCors: of("s3:PutBucketCORS"),
  DeleteBucketCors: of("s3:PutBucketCORS"),
  GetPublicAccessBlock: of("s3:GetBucketPublicAccessBlock"),
  PutPublicAccessBlock: of("s3:PutBucketPublicAccessBlock"),
  DeletePublicAccessBlock: of("s3:PutBucketPublicAccessBlock"),
  GetBucketOwnershipControls: of("s3:GetBucketOwnershipControls"),
  PutBucketOwnershipControls: of("s3:PutBucketOwnershipControls"),
  DeleteBucketOwnershipControls: of("s3:PutBucketOwnershipControls"),
  GetBucketAcl: of("s3:GetBucketAcl"),
  PutBucketAcl: of("s3:PutBucketAcl"),
  GetBucketLifecycleConfiguration: of("s3:GetLifecycleConfiguration"),
  GetBucketEncryption: of("s3:GetEncryptionConfiguration"),
  GetObjectLockConfiguration: of("s3:GetBucketObjectLockConfiguration"),
  GetBucketReplication: of("s3:GetReplicationConfiguration"),
  GetBucketWebsite: of("s3:GetBucketWebsite"),
  GetBucketNotificationConfiguration: of("s3:GetBucketNotification"),
  GetBucketLogging: of("s3:GetBucketLogging"),
  GetBucketAccelerateConfiguration: of("s3:GetAccelerateConfiguration"),
  GetBucketRequestPayment: of("s3:GetBucketRequestPayment"),
  ListObjects: of("s3:ListBucket"),
  ListObjectsV2: of("s3:ListBucket"),
  ListObjectVersions: of("s3:ListBucketVersions"),
  ListMultipartUploads: of("s3:ListBucketMultipartUploads"),
  /** Asks for each key. */
  DeleteObjects: of(),
  GetObject: read,
  HeadObject: read,
  GetObjectAttributes: byVersion(["s3:GetObject", "s3:GetObjectAttributes"], ["s3:GetObjectVersion", "s3:GetObjectVersionAttributes"]),
  GetObjectAcl: byVersion(["s3:GetObjectAcl"], ["s3:GetObjectVersionAcl"]),
  PutObjectAcl: byVersion(["s3:PutObjectAcl"], ["s3:PutObjectVersionAcl"]),
  PutObject: write,
  /** By a form. */
  PostObject: write,
  /** Asks for its source, too. */
  CopyObject: write,
  DeleteObject: byVersion(["s3:DeleteObject"], ["s3:DeleteObjectVersion"]),
  GetObjectTagging: byVersion(["s3:GetObjectTagging"], ["s3:GetObjectVersionTagging"]),
  PutObjectTagging: byVersion(["s3:PutObjectTagging"], ["s3:PutObjectVersionTagging"]),
  DeleteObjectTagging: byVersion(["s3:DeleteObjectTagging"], ["s3:DeleteObjectVersionTagging"]),
  CreateMultipartUpload: write,
  UploadPart: of("s3:PutObject"),
  /** Asks for its source, too. */
  UploadPartCopy: of("s3:PutObject"),
  CompleteMultipartUpload: of("s3:PutObject"),
  AbortMultipartUpload: of("s3:AbortMultipartUpload"),
  ListParts: of("s3:ListMultipartUploadParts"),
};

interface Asked {
  readonly version: boolean;
  readonly tags: boolean;
  readonly acl: boolean;
}

export function actionsOf(operation: string, asked: Asked): readonly S3Action[] {
  const actions = OPERATION_ACTIONS[operation];
  if (actions === undefined) return [];
  const plain = asked.version && actions.ofVersion !== undefined ? actions.ofVersion : actions.always;
  const { withTags, withAcl } = actions;
  if ((!asked.tags || withTags === undefined) && (!asked.acl || withAcl === undefined)) return plain;
  return [...plain, ...(asked.tags && withTags !== undefined ? [withTags] : []), ...(asked.acl && withAcl !== undefined ? [withAcl] : [])];
}

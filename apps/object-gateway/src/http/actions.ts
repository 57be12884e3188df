// Which actions of S3's policies an operation is. Every operation on a bucket has a row; what it needs for each of many keys, or of the
// source of a copy, it asks for itself.
import type { S3Action } from "@concord/s3";

interface OperationActions {
  readonly always: readonly S3Action[];
  /** Instead, with versionId. */
  readonly ofVersion?: readonly S3Action[];
  /** Besides, with x-amz-tagging: of an object that it makes. */
  readonly withTags?: S3Action;
  /** Besides, with an ACL in its headers: of an object that it makes. */
  readonly withAcl?: S3Action;
  /** What it asks the store for decides, where an ACL counts or a policy asks for tags; `judge` goes to the store. New: it makes something beside what is there. */
  readonly object?: "judged" | "new";
}

const of = (...always: readonly S3Action[]): OperationActions => ({ always });
const judged = (...always: readonly S3Action[]): OperationActions => ({ always, object: "judged" });
const making = (...always: readonly S3Action[]): OperationActions => ({ always, object: "new" });
const judgedByVersion = (always: readonly S3Action[], ofVersion: readonly S3Action[]): OperationActions => ({
  ...judged(...always),
  ofVersion,
});
const written = { withTags: "s3:PutObjectTagging", withAcl: "s3:PutObjectAcl" } as const;
const write: OperationActions = { ...judged("s3:PutObject"), ...written };
const read = judgedByVersion(["s3:GetObject"], ["s3:GetObjectVersion"]);

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
  PutBucketLifecycleConfiguration: of("s3:PutLifecycleConfiguration"),
  DeleteBucketLifecycle: of("s3:PutLifecycleConfiguration"),
  GetBucketEncryption: of("s3:GetEncryptionConfiguration"),
  PutBucketEncryption: of("s3:PutEncryptionConfiguration"),
  DeleteBucketEncryption: of("s3:PutEncryptionConfiguration"),
  GetObjectLockConfiguration: of("s3:GetBucketObjectLockConfiguration"),
  PutObjectLockConfiguration: of("s3:PutBucketObjectLockConfiguration"),
  GetBucketReplication: of("s3:GetReplicationConfiguration"),
  GetBucketWebsite: of("s3:GetBucketWebsite"),
  PutBucketWebsite: of("s3:PutBucketWebsite"),
  DeleteBucketWebsite: of("s3:DeleteBucketWebsite"),
  GetBucketNotificationConfiguration: of("s3:GetBucketNotification"),
  PutBucketNotificationConfiguration: of("s3:PutBucketNotification"),
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
  GetObjectAttributes: judgedByVersion(
    ["s3:GetObject", "s3:GetObjectAttributes"],
    ["s3:GetObjectVersion", "s3:GetObjectVersionAttributes"],
  ),
  GetObjectAcl: judgedByVersion(["s3:GetObjectAcl"], ["s3:GetObjectVersionAcl"]),
  PutObjectAcl: judgedByVersion(["s3:PutObjectAcl"], ["s3:PutObjectVersionAcl"]),
  PutObject: write,
  /** By a form. */
  PostObject: write,
  /** Asks for its source, too. */
  CopyObject: write,
  DeleteObject: judgedByVersion(["s3:DeleteObject"], ["s3:DeleteObjectVersion"]),
  GetObjectRetention: of("s3:GetObjectRetention"),
  GetObjectLegalHold: of("s3:GetObjectLegalHold"),
  /** Ask when they know what lock is to be set. */
  PutObjectRetention: of(),
  PutObjectLegalHold: of(),
  GetObjectTagging: judgedByVersion(["s3:GetObjectTagging"], ["s3:GetObjectVersionTagging"]),
  /** Asks when it knows which tags are to be set. */
  PutObjectTagging: of(),
  DeleteObjectTagging: judgedByVersion(["s3:DeleteObjectTagging"], ["s3:DeleteObjectVersionTagging"]),
  CreateMultipartUpload: { ...making("s3:PutObject"), ...written },
  UploadPart: making("s3:PutObject"),
  /** Asks for its source, too. */
  UploadPartCopy: making("s3:PutObject"),
  CompleteMultipartUpload: judged("s3:PutObject"),
  AbortMultipartUpload: judged("s3:AbortMultipartUpload"),
  ListParts: judged("s3:ListMultipartUploadParts"),
};

interface Asked {
  readonly version: boolean;
  readonly tags: boolean;
  readonly acl: boolean;
}

/** What a request needs, by what it is about: all that is there already, or what it makes. */
export interface NeededActions {
  readonly judged: readonly S3Action[];
  readonly ofNew: readonly S3Action[];
  /** Whatever any object is. */
  readonly plain: readonly S3Action[];
}

export function actionsOf(operation: string, asked: Asked): NeededActions {
  const actions = OPERATION_ACTIONS[operation];
  if (actions === undefined) return { judged: [], ofNew: [], plain: [] };
  const { always, ofVersion, withTags, withAcl, object } = actions;
  const named = asked.version && ofVersion !== undefined ? ofVersion : always;
  const acl = asked.acl && withAcl !== undefined ? [withAcl] : [];
  const tags = asked.tags && withTags !== undefined ? [withTags] : [];
  return {
    judged: object === "judged" ? named : [],
    ofNew: [...(object === "new" ? named : []), ...acl, ...tags],
    plain: object === undefined ? named : [],
  };
}

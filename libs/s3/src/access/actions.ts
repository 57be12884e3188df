// The actions that a policy may name, and what each is about. Of operations that are not implemented here, too: policies of other
// servers name them, and a refusal of what cannot happen is no risk.

const BUCKET_ACTIONS = [
  "DeleteBucket",
  "DeleteBucketPolicy",
  "DeleteBucketWebsite",
  "GetAccelerateConfiguration",
  "GetBucketAcl",
  "GetBucketCORS",
  "GetBucketLocation",
  "GetBucketLogging",
  "GetBucketNotification",
  "GetBucketObjectLockConfiguration",
  "GetBucketOwnershipControls",
  "GetBucketPolicy",
  "GetBucketPolicyStatus",
  "GetBucketPublicAccessBlock",
  "GetBucketRequestPayment",
  "GetBucketTagging",
  "GetBucketVersioning",
  "GetBucketWebsite",
  "GetEncryptionConfiguration",
  "GetLifecycleConfiguration",
  "GetReplicationConfiguration",
  "ListBucket",
  "ListBucketMultipartUploads",
  "ListBucketVersions",
  "PutBucketAcl",
  "PutBucketCORS",
  "PutBucketNotification",
  "PutBucketObjectLockConfiguration",
  "PutBucketOwnershipControls",
  "PutBucketPolicy",
  "PutBucketPublicAccessBlock",
  "PutBucketTagging",
  "PutBucketVersioning",
  "PutBucketWebsite",
  "PutEncryptionConfiguration",
  "PutLifecycleConfiguration",
] as const;

const OBJECT_ACTIONS = [
  "AbortMultipartUpload",
  "BypassGovernanceRetention",
  "DeleteObject",
  "DeleteObjectTagging",
  "DeleteObjectVersion",
  "DeleteObjectVersionTagging",
  "GetObject",
  "GetObjectAcl",
  "GetObjectAttributes",
  "GetObjectLegalHold",
  "GetObjectRetention",
  "GetObjectTagging",
  "GetObjectVersion",
  "GetObjectVersionAcl",
  "GetObjectVersionAttributes",
  "GetObjectVersionTagging",
  "ListMultipartUploadParts",
  "PutObject",
  "PutObjectAcl",
  "PutObjectLegalHold",
  "PutObjectRetention",
  "PutObjectTagging",
  "PutObjectVersionAcl",
  "PutObjectVersionTagging",
  "RestoreObject",
] as const;

export type S3Action = `s3:${(typeof BUCKET_ACTIONS)[number] | (typeof OBJECT_ACTIONS)[number]}`;

const BUCKET_NAMES: ReadonlySet<string> = new Set(BUCKET_ACTIONS.map((name) => `s3:${name}`));
export const S3_ACTIONS: readonly S3Action[] = [...BUCKET_ACTIONS, ...OBJECT_ACTIONS].map((name): S3Action => `s3:${name}`);

export const isBucketAction = (action: S3Action): boolean => BUCKET_NAMES.has(action);

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

/** What is asked of an object with these tags (`s3:ExistingObjectTag/...`), as S3 has it. */
export const OF_EXISTING_TAGS: readonly S3Action[] = [
  "s3:DeleteObjectTagging",
  "s3:DeleteObjectVersionTagging",
  "s3:GetObject",
  "s3:GetObjectAcl",
  "s3:GetObjectAttributes",
  "s3:GetObjectTagging",
  "s3:GetObjectVersion",
  "s3:GetObjectVersionAcl",
  "s3:GetObjectVersionAttributes",
  "s3:GetObjectVersionTagging",
  "s3:PutObjectAcl",
  "s3:PutObjectTagging",
  "s3:PutObjectVersionAcl",
  "s3:PutObjectVersionTagging",
];

/** What gives an object tags (`s3:RequestObjectTag/...`, `s3:RequestObjectTagKeys`). */
export const OF_REQUEST_TAGS: readonly S3Action[] = ["s3:PutObject", "s3:PutObjectTagging", "s3:PutObjectVersionTagging"];

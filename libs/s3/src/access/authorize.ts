// Whether a request is allowed: one pure function, whose table is in the README with a test per row.
import { unreachable } from "@concord/runtime";
import { permits, type Acl, type Grant, type ObjectOwnership, type Permission } from "./acl.ts";
import { OF_EXISTING_TAGS, type S3Action } from "./actions.ts";
import type { ConditionFacts, ExistingTags } from "./conditions.ts";
import { judgeByPolicy, type Caller, type Policy } from "./policy.ts";

export interface PublicAccessBlock {
  readonly blockPublicAcls: boolean;
  readonly ignorePublicAcls: boolean;
  readonly blockPublicPolicy: boolean;
  readonly restrictPublicBuckets: boolean;
}

/** What is known of the bucket. */
export interface BucketAccess {
  readonly bucket: string;
  readonly owner: string;
  readonly policy: Policy | undefined;
  readonly block: PublicAccessBlock;
  readonly ownership: ObjectOwnership;
  /** The bucket's own. */
  readonly grants: readonly Grant[];
  /** The operator's setting for the whole gateway. */
  readonly publicAccess: "possible" | "refused";
}

/** What is known of the object that a request is about. New: the request is about to make it. Without an ACL it is the bucket owner's. */
export type KnownObject =
  | { readonly kind: "absent" }
  | { readonly kind: "new" }
  | { readonly kind: "there"; readonly acl: Acl | undefined; readonly tags: Readonly<Record<string, string>> };

export interface AccessRequest {
  readonly caller: Caller;
  readonly action: S3Action;
  /** Undefined: the bucket itself. */
  readonly key: string | undefined;
  readonly facts: ConditionFacts;
  /** Undefined: not known yet. */
  readonly object?: KnownObject | undefined;
}

export type Decision =
  | { readonly kind: "allowed"; readonly by: "owner" | "policy" | "acl" }
  | { readonly kind: "denied"; readonly by: "policy" | "public access block" | "gateway" | "default" }
  /** The object decides: never without `object`. */
  | { readonly kind: "undecided"; readonly by: "object" };

/** An owner that has refused itself everything can still repair the policy. */
const REPAIRS: readonly S3Action[] = ["s3:GetBucketPolicy", "s3:PutBucketPolicy", "s3:DeleteBucketPolicy"];

type Rights = Readonly<Partial<Record<S3Action, Permission>>>;

/** What an object's own ACL may grant. */
const OBJECT_RIGHTS: Rights = {
  "s3:GetObject": "READ",
  "s3:GetObjectVersion": "READ",
  "s3:GetObjectAcl": "READ_ACP",
  "s3:GetObjectVersionAcl": "READ_ACP",
  "s3:PutObjectAcl": "WRITE_ACP",
  "s3:PutObjectVersionAcl": "WRITE_ACP",
};
/** What S3 leaves to the object's owner and to policies. */
const OF_OBJECT_OWNER: readonly S3Action[] = ["s3:GetObjectAttributes", "s3:GetObjectVersionAttributes"];

/** What a bucket's ACL may grant. */
const BUCKET_RIGHTS: Rights = {
  "s3:ListBucket": "READ",
  "s3:ListBucketVersions": "READ",
  "s3:ListBucketMultipartUploads": "READ",
  "s3:GetBucketAcl": "READ_ACP",
  "s3:PutBucketAcl": "WRITE_ACP",
};
/** Of WRITE: new objects, and what the caller owns. */
const WRITES: readonly S3Action[] = ["s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"];

const ALLOWED_BY_OWNER: Decision = { kind: "allowed", by: "owner" };
const ALLOWED_BY_ACL: Decision = { kind: "allowed", by: "acl" };
const DENIED: Decision = { kind: "denied", by: "default" };
const UNDECIDED: Decision = { kind: "undecided", by: "object" };

/** Explicit refusal, then what is public, then owner, policy or ACL, else no. */
export function authorize(access: BucketAccess, request: AccessRequest): Decision {
  const { caller, action } = request;
  const isOwner = caller.kind === "tenant" && caller.tenant === access.owner;
  if (isOwner && REPAIRS.includes(action)) return ALLOWED_BY_OWNER;
  const said = judgeByPolicy(access.policy, { ...request, bucket: access.bucket, existingTags: existingTagsOf(request) });
  if (said === "deny") return { kind: "denied", by: "policy" };
  if (said === "unknown") return UNDECIDED;
  const whose = whoseIsIt(access, request);
  if (isOwner && whose === "bucket owner's") return ALLOWED_BY_OWNER;
  const isRefusedHere = access.publicAccess === "refused";
  if (isRefusedHere && caller.kind === "anonymous") return { kind: "denied", by: "gateway" };
  if (access.policy?.isPublic === true && !isOwner) {
    if (isRefusedHere) return { kind: "denied", by: "gateway" };
    if (access.block.restrictPublicBuckets) return { kind: "denied", by: "public access block" };
  }
  // A bucket's policy gives away nothing that is another's.
  if (said === "allow" && whose === "bucket owner's") return { kind: "allowed", by: "policy" };
  if (access.ownership === "BucketOwnerEnforced") return DENIED;
  return whose === "unknown" ? UNDECIDED : judgeByAcl(access, request);
}

function existingTagsOf({ action, object }: AccessRequest): ExistingTags {
  if (!OF_EXISTING_TAGS.includes(action)) return undefined;
  if (object === undefined) return "unknown";
  return object.kind === "there" ? object.tags : undefined;
}

/** Of what the action is about. */
function whoseIsIt({ ownership, owner }: BucketAccess, { action, object }: AccessRequest): "bucket owner's" | "another's" | "unknown" {
  if (ownership === "BucketOwnerEnforced" || !isOfObject(action)) return "bucket owner's";
  if (object === undefined) return "unknown";
  return object.kind === "there" && object.acl !== undefined && object.acl.owner !== owner ? "another's" : "bucket owner's";
}

const isOfObject = (action: S3Action): boolean => OBJECT_RIGHTS[action] !== undefined || OF_OBJECT_OWNER.includes(action);

/** In a bucket with ACLs, of what neither its owner nor a policy decides. */
function judgeByAcl(access: BucketAccess, { caller, action, object }: AccessRequest): Decision {
  const withPublic = access.publicAccess === "possible" && !access.block.ignorePublicAcls;
  const may = (grants: readonly Grant[], permission: Permission | undefined): boolean =>
    permission !== undefined && permits(grants, { caller, permission, withPublic });
  if (WRITES.includes(action)) {
    if (!may(access.grants, "WRITE")) return DENIED;
    return object === undefined ? UNDECIDED : mayWrite(object, caller);
  }
  if (!isOfObject(action)) return may(access.grants, BUCKET_RIGHTS[action]) ? ALLOWED_BY_ACL : DENIED;
  switch (object?.kind) {
    case "there":
      if (isOwnedBy(object.acl, caller)) return ALLOWED_BY_OWNER;
      return may(object.acl?.grants ?? [], OBJECT_RIGHTS[action]) ? ALLOWED_BY_ACL : DENIED;
    case "new":
      // Who may write an object that will be its own says who else may use it.
      return action === "s3:PutObjectAcl" && caller.kind === "tenant" && may(access.grants, "WRITE") ? ALLOWED_BY_ACL : DENIED;
    case "absent":
    case undefined:
      return DENIED;
    default:
      return unreachable(object);
  }
}

function mayWrite(object: KnownObject, caller: Caller): Decision {
  return object.kind !== "there" || isOwnedBy(object.acl, caller) ? ALLOWED_BY_ACL : DENIED;
}

const isOwnedBy = (acl: Acl | undefined, caller: Caller): boolean => caller.kind === "tenant" && acl?.owner === caller.tenant;

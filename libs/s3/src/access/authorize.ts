// Whether a request is allowed: one pure function, whose table is in the README with a test per row.
import type { S3Action } from "./actions.ts";
import type { ConditionFacts } from "./conditions.ts";
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
  /** The tenant that owns it, and everything in it. */
  readonly owner: string;
  readonly policy: Policy | undefined;
  readonly block: PublicAccessBlock;
  /** The operator's setting for the whole gateway. */
  readonly publicAccess: "possible" | "refused";
}

export interface AccessRequest {
  readonly caller: Caller;
  readonly action: S3Action;
  /** Undefined: the bucket itself. */
  readonly key: string | undefined;
  readonly facts: ConditionFacts;
}

export type Decision =
  | { readonly kind: "allowed"; readonly by: "owner" | "policy" }
  | { readonly kind: "denied"; readonly by: "policy" | "public access block" | "gateway" | "default" };

/** An owner that has refused itself everything can still repair the policy. */
const REPAIRS: readonly S3Action[] = ["s3:GetBucketPolicy", "s3:PutBucketPolicy", "s3:DeleteBucketPolicy"];

/** Explicit refusal, then what is public, then owner or policy, else no. */
export function authorize(access: BucketAccess, request: AccessRequest): Decision {
  const { caller, action } = request;
  const isOwner = caller.kind === "tenant" && caller.tenant === access.owner;
  if (isOwner && REPAIRS.includes(action)) return { kind: "allowed", by: "owner" };
  const said = judgeByPolicy(access.policy, { ...request, bucket: access.bucket });
  if (said === "deny") return { kind: "denied", by: "policy" };
  if (isOwner) return { kind: "allowed", by: "owner" };
  const isRefusedHere = access.publicAccess === "refused";
  if (isRefusedHere && caller.kind === "anonymous") return { kind: "denied", by: "gateway" };
  if (access.policy?.isPublic === true) {
    if (isRefusedHere) return { kind: "denied", by: "gateway" };
    if (access.block.restrictPublicBuckets) return { kind: "denied", by: "public access block" };
  }
  return said === "allow" ? { kind: "allowed", by: "policy" } : { kind: "denied", by: "default" };
}

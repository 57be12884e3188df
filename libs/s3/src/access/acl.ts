// Access control lists: what the owner of a bucket or an object has granted, as clients ask for it, as it is stored, and whom it permits what.
import { assert } from "@concord/runtime";
import { S3Error } from "../errors.ts";
import type { Fields } from "../fields.ts";
import { ACL_GRANTS_MAX } from "../limits.ts";
import type { Caller } from "./policy.ts";

export const PERMISSIONS = ["READ", "WRITE", "READ_ACP", "WRITE_ACP", "FULL_CONTROL"] as const;
export type Permission = (typeof PERMISSIONS)[number];

/** Everyone, also without a signature; authenticated: every tenant. */
export type Grantee = { readonly kind: "tenant"; readonly id: string } | { readonly kind: "everyone" } | { readonly kind: "authenticated" };

export interface Grant {
  readonly grantee: Grantee;
  readonly permission: Permission;
}

export interface Acl {
  readonly owner: string;
  readonly grants: readonly Grant[];
}

/** Enforced: everything in the bucket is its owner's, and ACLs mean nothing. Else objects are their writer's; preferred: unless given to the bucket's owner. */
export const OBJECT_OWNERSHIPS = ["BucketOwnerEnforced", "BucketOwnerPreferred", "ObjectWriter"] as const;
export type ObjectOwnership = (typeof OBJECT_OWNERSHIPS)[number];

const CANNED = [
  "private",
  "public-read",
  "public-read-write",
  "authenticated-read",
  "bucket-owner-read",
  "bucket-owner-full-control",
] as const;
export type CannedAcl = (typeof CANNED)[number];
/** Of services that are not here. */
const CANNED_ELSEWHERE = ["aws-exec-read", "log-delivery-write"];

/** What a request says of the ACL of what it writes. */
export type AskedAcl =
  | { readonly kind: "none" }
  | { readonly kind: "canned"; readonly name: CannedAcl }
  | { readonly kind: "grants"; readonly grants: readonly Grant[] };

const GROUPS = {
  everyone: "http://acs.amazonaws.com/groups/global/AllUsers",
  authenticated: "http://acs.amazonaws.com/groups/global/AuthenticatedUsers",
} as const;

export const groupUri = ({ kind }: Exclude<Grantee, { readonly kind: "tenant" }>): string => GROUPS[kind];

/** Of exactly one of the three that S3 knows. InvalidArgument, NotImplemented, UnresolvableGrantByEmailAddress. */
export function granteeOf(kind: string, value: string): Grantee {
  switch (kind) {
    case "id":
      return { kind: "tenant", id: value };
    case "uri":
      if (value === GROUPS.everyone) return { kind: "everyone" };
      if (value === GROUPS.authenticated) return { kind: "authenticated" };
      if (value === "http://acs.amazonaws.com/groups/s3/LogDelivery") throw new S3Error("NotImplemented", "There is no log delivery here.");
      throw new S3Error("InvalidArgument", "Invalid group uri");
    case "emailaddress":
      throw new S3Error("UnresolvableGrantByEmailAddress");
    default:
      throw new S3Error("InvalidArgument", "A grantee is an id, a uri or an emailAddress.");
  }
}

const GRANT_HEADERS: Readonly<Record<string, Permission>> = {
  "x-amz-grant-read": "READ",
  "x-amz-grant-write": "WRITE",
  "x-amz-grant-read-acp": "READ_ACP",
  "x-amz-grant-write-acp": "WRITE_ACP",
  "x-amz-grant-full-control": "FULL_CONTROL",
};

/** Whether a request says anything of an ACL in its headers. */
export function hasAclHeaders(headers: Fields): boolean {
  return headers.has("x-amz-acl") || headers.entries.some(([name]) => name.startsWith("x-amz-grant-"));
}

/** InvalidArgument for what S3 does not know, InvalidRequest for a canned ACL with grants beside it. */
export function readAclHeaders(headers: Fields): AskedAcl {
  const canned = headers.one("x-amz-acl");
  const given = headers.entries.filter(([name]) => name.startsWith("x-amz-grant-"));
  if (canned === undefined && given.length === 0) return { kind: "none" };
  if (canned === undefined) return { kind: "grants", grants: bounded(given.flatMap(([name, value]) => readGrantHeader(name, value))) };
  if (given.length > 0) throw new S3Error("InvalidRequest", "Specifying both Canned ACLs and Header Grants is not allowed");
  if (CANNED_ELSEWHERE.includes(canned)) throw new S3Error("NotImplemented", `The canned ACL ${canned} is not implemented here.`);
  const name = CANNED.find((known) => known === canned);
  if (name === undefined) throw new S3Error("InvalidArgument", "x-amz-acl names no canned ACL");
  return { kind: "canned", name };
}

/** `id="bob", uri="http://..."`: quotes may be left out. */
function readGrantHeader(name: string, value: string): readonly Grant[] {
  const permission = Object.hasOwn(GRANT_HEADERS, name) ? GRANT_HEADERS[name] : undefined;
  if (permission === undefined) throw new S3Error("InvalidArgument", `${name.slice(0, 64)} grants nothing that is known`);
  return value.split(",").map((one) => {
    const [, kind = "", quoted, plain] = /^\s*([A-Za-z]{1,16})\s*=\s*(?:"([^"]*)"|([^"\s]+))\s*$/.exec(one) ?? [];
    return { grantee: granteeOf(kind.toLowerCase(), quoted ?? plain ?? ""), permission };
  });
}

/** MalformedACLError above S3's limit; the same grant twice is one. */
export function bounded(grants: readonly Grant[]): readonly Grant[] {
  if (grants.length > ACL_GRANTS_MAX) throw new S3Error("MalformedACLError", `An ACL has at most ${ACL_GRANTS_MAX} grants.`);
  const seen = new Map(grants.map((grant) => [grantText(grant), grant]));
  return [...seen.values()];
}

/** InvalidArgument for a tenant that is not known. */
export function checkGrantees(grants: readonly Grant[], isTenant: (name: string) => boolean): void {
  if (grants.some(({ grantee }) => grantee.kind === "tenant" && !isTenant(grantee.id))) throw new S3Error("InvalidArgument", "Invalid id");
}

const full = (id: string): Grant => ({ grantee: { kind: "tenant", id }, permission: "FULL_CONTROL" });

/** `bucketOwner` is also the owner of a bucket's own ACL, where it is granted nothing twice. */
export function grantsOf(
  asked: AskedAcl,
  { owner, bucketOwner }: { readonly owner: string; readonly bucketOwner: string },
): readonly Grant[] {
  if (asked.kind === "none") return [full(owner)];
  if (asked.kind === "grants") return asked.grants;
  const toBucketOwner = (permission: Permission): readonly Grant[] =>
    owner === bucketOwner ? [] : [{ grantee: { kind: "tenant", id: bucketOwner }, permission }];
  const more: Readonly<Record<CannedAcl, readonly Grant[]>> = {
    private: [],
    "public-read": [{ grantee: { kind: "everyone" }, permission: "READ" }],
    "public-read-write": [
      { grantee: { kind: "everyone" }, permission: "READ" },
      { grantee: { kind: "everyone" }, permission: "WRITE" },
    ],
    "authenticated-read": [{ grantee: { kind: "authenticated" }, permission: "READ" }],
    "bucket-owner-read": toBucketOwner("READ"),
    "bucket-owner-full-control": toBucketOwner("FULL_CONTROL"),
  };
  return [full(owner), ...more[asked.name]];
}

export const isPublicGrant = ({ grantee }: Grant): boolean => grantee.kind !== "tenant";

/** Its owner may do everything, others nothing: as if there were no ACL. */
export function isPrivateAcl({ owner, grants }: Acl): boolean {
  return grants.length === 1 && grantText(grants[0]!) === grantText(full(owner));
}

/** `withPublic`: grants to everyone and to every tenant count. */
export function permits(
  grants: readonly Grant[],
  { caller, permission, withPublic }: { readonly caller: Caller; readonly permission: Permission; readonly withPublic: boolean },
): boolean {
  return grants.some((grant) => {
    if (grant.permission !== permission && grant.permission !== "FULL_CONTROL") return false;
    if (isPublicGrant(grant) && !withPublic) return false;
    return isGrantedTo(grant.grantee, caller);
  });
}

function isGrantedTo(grantee: Grantee, caller: Caller): boolean {
  if (grantee.kind === "everyone") return true;
  if (caller.kind === "anonymous") return false;
  return grantee.kind === "authenticated" || grantee.id === caller.tenant;
}

const grantText = ({ grantee, permission }: Grant): string =>
  JSON.stringify([permission, grantee.kind, ...(grantee.kind === "tenant" ? [grantee.id] : [])]);

/** As it is stored; golden texts are tested. */
export const grantsText = (grants: readonly Grant[]): string => `[${grants.map(grantText).join(",")}]`;

/** Of a text that `grantsText` wrote. */
export function parseGrants(text: string): readonly Grant[] {
  const all = JSON.parse(text) as readonly (readonly [Permission, Grantee["kind"], string?])[];
  return all.map(([permission, kind, id]) => {
    assert(PERMISSIONS.includes(permission), "a stored permission is known");
    if (kind !== "tenant") {
      assert(Object.hasOwn(GROUPS, kind), "a stored grantee is known");
      return { grantee: { kind }, permission };
    }
    assert(id !== undefined, "a tenant has a name");
    return { grantee: { kind, id }, permission };
  });
}

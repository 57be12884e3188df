// S3 operations of ACLs and ownership, and the ACL of what other operations make.
import type { Judged, ObjectAcl } from "@concord/objects";
import {
  aclXml,
  checkGrantees,
  grantsOf,
  grantsText,
  isPrivateAcl,
  isPublicGrant,
  OBJECT_OWNERSHIPS,
  ownershipControlsXml,
  parseGrants,
  readAcl,
  readAclHeaders,
  readOwnershipControls,
  S3Error,
  type Acl,
  type AskedAcl,
  type BucketAccess,
  type Fields,
  type Grant,
  type ObjectOwnership,
} from "@concord/s3";
import { ACL, OWNERSHIP } from "./access.ts";
import { readDocument } from "./bodies.ts";
import type { S3Call } from "./call.ts";
import type { Context, Operation } from "./context.ts";
import { empty, versionHeader, xml } from "./responses.ts";

const ENFORCED: ObjectOwnership = "BucketOwnerEnforced";

/**
 * Of what a request makes; undefined: it is the bucket owner's, and only its. What an anonymous caller makes is the bucket owner's, too.
 * AccessControlListNotSupported, AccessDenied for a public one where that is blocked, and as `readAclHeaders`.
 */
export function aclOfNew({ headers, access, caller }: S3Call, context: Context): ObjectAcl | undefined {
  const asked = readAclHeaders(headers);
  if (access.ownership === ENFORCED) return refuseAcl(asked, access.owner);
  const writer = caller.kind === "tenant" ? caller.tenant : access.owner;
  const isGiven = access.ownership === "BucketOwnerPreferred" && asked.kind === "canned" && asked.name === "bucket-owner-full-control";
  const owner = isGiven ? access.owner : writer;
  return stored({ owner, grants: checked(grantsOf(asked, { owner, bucketOwner: access.owner }), access, context) }, access.owner);
}

/** Where ACLs mean nothing only what is so anyway may be asked for. */
function refuseAcl(asked: AskedAcl, owner: string): undefined {
  const isHarmless =
    asked.kind === "none" ||
    (asked.kind === "canned" && (asked.name === "private" || asked.name === "bucket-owner-full-control")) ||
    (asked.kind === "grants" && isPrivateAcl({ owner, grants: asked.grants }));
  if (!isHarmless) throw new S3Error("AccessControlListNotSupported", "The bucket does not allow ACLs: see its ownership controls.");
  return undefined;
}

function checked(
  grants: readonly Grant[],
  { block, publicAccess }: Pick<BucketAccess, "block" | "publicAccess">,
  { access: { options } }: Context,
): readonly Grant[] {
  checkGrantees(grants, options.isTenant);
  if ((block.blockPublicAcls || publicAccess === "refused") && grants.some(isPublicGrant))
    throw new S3Error("AccessDenied", "Public ACLs are blocked by the public access block of the bucket or of this server.");
  return grants;
}

const stored = (acl: Acl, bucketOwner: string): ObjectAcl | undefined =>
  acl.owner === bucketOwner && isPrivateAcl(acl) ? undefined : { owner: acl.owner, grants: grantsText(acl.grants) };

/** Of an object as it is in effect. */
export function aclOf({ ownership, owner }: BucketAccess, acl: ObjectAcl | undefined): Acl {
  const bucketOwners = { owner, grants: grantsOf({ kind: "none" }, { owner, bucketOwner: owner }) };
  if (acl === undefined || ownership === ENFORCED) return bucketOwners;
  return { owner: acl.owner, grants: parseGrants(acl.grants) };
}

/** Entries of a list as they are in effect: where ACLs mean nothing, all are the bucket owner's. */
export function withOwners<Entry extends { readonly owner: string | undefined }>(
  { ownership }: BucketAccess,
  entries: readonly Entry[],
): readonly Entry[] {
  if (ownership !== ENFORCED || !entries.some(({ owner }) => owner !== undefined)) return entries;
  return entries.map((entry) => ({ ...entry, owner: undefined }));
}

/** What a new bucket's headers ask for, as documents of its settings. InvalidBucketAclWithObjectOwnership for an ACL that could mean nothing. */
export function documentsOfNew(headers: Fields, owner: string, context: Context): Readonly<Record<string, string>> {
  const said = headers.one("x-amz-object-ownership") ?? ENFORCED;
  const ownership = OBJECT_OWNERSHIPS.find((known) => known === said);
  if (ownership === undefined) throw new S3Error("InvalidArgument", "x-amz-object-ownership is not known");
  const grants = grantsOf(readAclHeaders(headers), { owner, bucketOwner: owner });
  if (ownership === ENFORCED) {
    if (!isPrivateAcl({ owner, grants })) throw new S3Error("InvalidBucketAclWithObjectOwnership");
    return {};
  }
  const { publicAccess } = context.access.options;
  const acl = stored({ owner, grants: checked(grants, { block: NOT_BLOCKED, publicAccess }, context) }, owner);
  return { [OWNERSHIP]: ownership, ...(acl === undefined ? {} : { [ACL]: acl.grants }) };
}

const NOT_BLOCKED = { blockPublicAcls: false, ignorePublicAcls: false, blockPublicPolicy: false, restrictPublicBuckets: false };

export const getBucketOwnershipControls: Operation = async ({ access }) => xml(ownershipControlsXml(access.ownership));

/** InvalidBucketAclWithObjectOwnership: the bucket's ACL would mean nothing; ACLs of objects are kept, and mean something again later. */
export const putBucketOwnershipControls: Operation = async (call, context) => {
  await setOwnership(call, context, readOwnershipControls(await readDocument(call, context)));
  return empty(200);
};

/** A bucket without controls is as one was made: its owner's with everything in it. */
export const deleteBucketOwnershipControls: Operation = async (call, context) => {
  await setOwnership(call, context, ENFORCED);
  return empty(204);
};

async function setOwnership({ bucket, access }: S3Call, { store }: Context, ownership: ObjectOwnership): Promise<void> {
  const isEnforced = ownership === ENFORCED;
  if (isEnforced && !isPrivateAcl(access)) throw new S3Error("InvalidBucketAclWithObjectOwnership");
  await store.setBucketDocument({ bucket, name: OWNERSHIP, text: isEnforced ? undefined : ownership });
}

export const getBucketAcl: Operation = async ({ access }) => xml(aclXml(access));

/** In effect for every request that begins after the answer. */
export const putBucketAcl: Operation = async (call, context) => {
  const { bucket, access } = call;
  const asked = await askedAcl(call, context);
  const { owner } = access;
  checkOwner(asked.owner, owner);
  if (access.ownership === ENFORCED) {
    refuseAcl(asked, owner);
    return empty(200);
  }
  const grants = checked(grantsOf(asked, { owner, bucketOwner: owner }), access, context);
  await context.store.setBucketDocument({ bucket, name: ACL, text: stored({ owner, grants }, owner)?.grants });
  return empty(200);
};

/** Of an object that is there. */
export const getObjectAcl: Operation = async ({ bucket, key, query, access, judge }, { store }) => {
  const versionId = query.one("versionId");
  const acl = await store.objectAcl({ bucket, key, versionId, judge });
  return xml(aclXml(aclOf(access, acl)), versionHeader(versionId));
};

/** The object stays its owner's. */
export const putObjectAcl: Operation = async (call, context) => {
  const { bucket, key, query, access, judge } = call;
  const versionId = query.one("versionId");
  const asked = await askedAcl(call, context);
  if (access.ownership === ENFORCED) {
    await context.store.objectAcl({ bucket, key, versionId, judge });
    checkOwner(asked.owner, access.owner);
    refuseAcl(asked, access.owner);
    return empty(200);
  }
  const change = (object: Judged): ObjectAcl | undefined => {
    judge?.(object);
    const { owner } = aclOf(access, object.acl);
    checkOwner(asked.owner, owner);
    return stored({ owner, grants: checked(grantsOf(asked, { owner, bucketOwner: access.owner }), access, context) }, access.owner);
  };
  await context.store.setObjectAcl({ bucket, key, versionId, change });
  return empty(200, versionHeader(versionId));
};

/** In headers or in a document, not in both. */
async function askedAcl(call: S3Call, context: Context): Promise<AskedAcl & { readonly owner?: string | undefined }> {
  const asked = readAclHeaders(call.headers);
  const body = await readDocument(call, context);
  if (body.length === 0) {
    if (asked.kind === "none") throw new S3Error("MissingSecurityHeader", "Your request was missing an ACL, in a header or a document.");
    return asked;
  }
  if (asked.kind !== "none") throw new S3Error("UnexpectedContent", "An ACL is in headers or in a document, not in both.");
  return { kind: "grants", ...readAcl(body) };
}

function checkOwner(said: string | undefined, owner: string): void {
  if (said !== undefined && said !== owner) throw new S3Error("AccessDenied", "The owner of an ACL cannot be changed.");
}

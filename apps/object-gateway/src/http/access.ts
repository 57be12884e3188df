// Who may do what with a bucket: what it and the request say, for the one function that decides (`authorize` in @concord/s3).
import type { BucketInfo, JudgeObject } from "@concord/objects";
import { assert, BoundedCache } from "@concord/runtime";
import {
  addressesWithin,
  authorize,
  grantsOf,
  lockFacts,
  parseGrants,
  readLockHeaders,
  OBJECT_OWNERSHIPS,
  clientAddress,
  readDirective,
  readPolicy,
  readTagHeader,
  S3Error,
  type BucketAccess,
  type Caller,
  type ConditionFacts,
  type Decision,
  type Fields,
  type KnownObject,
  type Policy,
  type PublicAccessBlock,
  type S3Action,
} from "@concord/s3";
import { DOCUMENTS_CACHED } from "../limits.ts";
import type { S3Call } from "./call.ts";

/** Names of documents of a bucket's settings. */
export const POLICY = "policy";
export const PUBLIC_ACCESS_BLOCK = "public-access-block";
export const OWNERSHIP = "ownership";
/** Grants of the bucket itself. */
export const ACL = "acl";

export interface AccessOptions {
  /** Refused: whatever owners allow. */
  readonly publicAccess: "possible" | "refused";
  /** Proxies whose X-Forwarded-* headers are believed. */
  readonly isProxy: (address: string) => boolean;
  readonly scheme: "http" | "https";
  /** Can be a principal of a policy. */
  readonly isTenant: (name: string) => boolean;
}

const NOTHING_BLOCKED: PublicAccessBlock = {
  blockPublicAcls: false,
  ignorePublicAcls: false,
  blockPublicPolicy: false,
  restrictPublicBuckets: false,
};

/** Reads settings of buckets; policies that were read lately are kept. */
export class AccessReader {
  readonly options: AccessOptions;
  readonly #policies = new BoundedCache<string, Policy>(DOCUMENTS_CACHED);

  constructor(options: AccessOptions) {
    this.options = options;
  }

  accessOf({ name, tenant, settings }: BucketInfo): BucketAccess {
    const { [POLICY]: policy, [PUBLIC_ACCESS_BLOCK]: block, [OWNERSHIP]: said, [ACL]: acl } = settings.documents;
    const ownership = said === undefined ? "BucketOwnerEnforced" : OBJECT_OWNERSHIPS.find((known) => known === said);
    assert(ownership !== undefined, "a stored ownership is known");
    return {
      bucket: name,
      owner: tenant,
      policy: policy === undefined ? undefined : this.#policyOf(name, policy),
      block: readBlock(block) ?? NOTHING_BLOCKED,
      ownership,
      grants: acl === undefined ? ownersGrants(tenant) : parseGrants(acl),
      publicAccess: this.options.publicAccess,
    };
  }

  /** Was checked when it was put: a tenant that is gone since is no reason to refuse it now. */
  #policyOf(bucket: string, text: string): Policy {
    return this.#policies.getOrMake(`${bucket} ${text}`, () => readPolicy(new TextEncoder().encode(text), bucket, () => true));
  }
}

/** Of a bucket that is not there yet. */
export function ownAccess(tenant: string): BucketAccess {
  const ownership = "BucketOwnerEnforced";
  return {
    bucket: "",
    owner: tenant,
    policy: undefined,
    block: NOTHING_BLOCKED,
    ownership,
    grants: ownersGrants(tenant),
    publicAccess: "refused",
  };
}

const ownersGrants = (tenant: string): BucketAccess["grants"] => grantsOf({ kind: "none" }, { owner: tenant, bucketOwner: tenant });

/** Undefined: none is configured. */
export function readBlock(text: string | undefined): PublicAccessBlock | undefined {
  return text === undefined ? undefined : { ...NOTHING_BLOCKED, ...(JSON.parse(text) as Partial<PublicAccessBlock>) };
}

/** Only a policy asks for any. */
const NO_FACTS: ConditionFacts = {};

/** Who asks, and what it says. */
export type Asking = Pick<S3Call, "caller" | "facts">;

/** What an action is about, where the request names several. */
interface About {
  /** Of this key. */
  readonly versionId?: string | undefined;
  readonly object?: KnownObject | undefined;
}

export function decide(
  access: BucketAccess,
  { caller, facts }: Asking,
  action: S3Action,
  key: string | undefined,
  { versionId, object }: About = {},
): Decision {
  const asked = access.policy === undefined ? NO_FACTS : facts();
  const about = versionId === undefined ? asked : { ...asked, "s3:versionid": versionId };
  return authorize(access, { caller, action, key, facts: about, object });
}

/** AccessDenied, also where an object would have to decide: `judgeOf` is for those. */
export function demand(access: BucketAccess, asking: Asking, action: S3Action, key: string | undefined, about?: About): void {
  if (decide(access, asking, action, key, about).kind !== "allowed") throw new S3Error("AccessDenied");
}

/**
 * Of actions on an object that the store has to ask for. Undefined: all are allowed, whatever the object is. AccessDenied: one never is. Else the
 * store calls it with the object, and it throws AccessDenied.
 */
export function judgeOf(
  access: BucketAccess,
  asking: Asking,
  actions: readonly S3Action[],
  key: string,
  versionId?: string,
): JudgeObject | undefined {
  const undecided = actions.filter((action) => {
    const { kind } = decide(access, asking, action, key, { versionId });
    if (kind === "denied") throw new S3Error("AccessDenied");
    return kind === "undecided";
  });
  if (undecided.length === 0) return undefined;
  return (found) => {
    const object = knownObject(found);
    for (const action of undecided) demand(access, asking, action, key, { versionId, object });
  };
}

export function knownObject(found: Parameters<JudgeObject>[0]): KnownObject {
  if (found === undefined) return { kind: "absent" };
  const { acl, attributes } = found;
  return { kind: "there", acl: acl && { owner: acl.owner, grants: parseGrants(acl.grants) }, tags: attributes.tags };
}

/** What a document says is known only when it was read: without a policy, which alone could ask for it, the caller's right is known before. */
export function demandBeforeBody({ access, ...asking }: S3Call, action: S3Action): void {
  if (access.policy === undefined) demand(access, asking, action, asking.key);
}

/** With what the request's document says, which may need what is known already. */
export function askingAlso({ caller, facts }: Asking, said: (known: ConditionFacts) => ConditionFacts): Asking {
  const all = (): ConditionFacts => {
    const known = facts();
    return { ...known, ...said(known) };
  };
  return { caller, facts: all };
}

export interface RequestFacts {
  readonly caller: Caller;
  readonly operation: string;
  readonly via: "header" | "query" | "form" | "none";
  readonly peer: string;
  readonly query: Fields;
  readonly headers: Fields;
  readonly nowMs: number;
}

/** Those that make an object, of all that need the right to put one: parts and the begin of an upload do not. */
const CREATIONS: ReadonlySet<string> = new Set(["PutObject", "PostObject", "CopyObject", "CompleteMultipartUpload"]);

/** What conditions may ask. */
export function factsOf(request: RequestFacts, { isProxy, scheme }: AccessOptions): ConditionFacts {
  const { caller, operation, via, query, headers, nowMs } = request;
  const peer = addressOf(request.peer);
  const said = {
    "aws:currenttime": String(nowMs),
    "aws:epochtime": String(nowMs),
    "aws:principalaccount": caller.kind === "tenant" ? caller.tenant : undefined,
    "aws:principalarn": caller.kind === "tenant" ? `arn:aws:iam::${caller.tenant}:root` : undefined,
    "aws:principalisawsservice": "false",
    "aws:principaltype": caller.kind === "tenant" ? "Account" : "Anonymous",
    "aws:referer": headers.one("referer"),
    "aws:securetransport": String(isSecure(headers, scheme, isProxy(peer))),
    "aws:sourceip": clientAddress(peer, headers.all("x-forwarded-for"), isProxy),
    "aws:useragent": headers.one("user-agent"),
    "aws:viaawsservice": "false",
    "s3:authtype": AUTH_TYPES[via],
    "s3:signatureversion": via === "none" ? undefined : "AWS4-HMAC-SHA256",
    "s3:delimiter": query.one("delimiter"),
    "s3:if-match": headers.one("if-match"),
    "s3:if-none-match": headers.one("if-none-match"),
    "s3:max-keys": query.one("max-keys"),
    "s3:objectcreationoperation": String(CREATIONS.has(operation)),
    "s3:prefix": query.one("prefix"),
    "s3:versionid": query.one("versionId"),
    "s3:x-amz-acl": headers.one("x-amz-acl"),
    "s3:x-amz-content-sha256": headers.one("x-amz-content-sha256"),
    "s3:x-amz-copy-source": headers.one("x-amz-copy-source"),
    "s3:x-amz-grant-full-control": headers.one("x-amz-grant-full-control"),
    "s3:x-amz-grant-read": headers.one("x-amz-grant-read"),
    "s3:x-amz-grant-read-acp": headers.one("x-amz-grant-read-acp"),
    "s3:x-amz-grant-write": headers.one("x-amz-grant-write"),
    "s3:x-amz-grant-write-acp": headers.one("x-amz-grant-write-acp"),
    "s3:x-amz-metadata-directive": headers.one("x-amz-metadata-directive"),
    "s3:x-amz-object-ownership": headers.one("x-amz-object-ownership"),
    "s3:x-amz-server-side-encryption": headers.one("x-amz-server-side-encryption"),
    "s3:x-amz-server-side-encryption-aws-kms-key-id": headers.one("x-amz-server-side-encryption-aws-kms-key-id"),
    "s3:x-amz-server-side-encryption-customer-algorithm": headers.one("x-amz-server-side-encryption-customer-algorithm"),
    "s3:x-amz-storage-class": headers.one("x-amz-storage-class"),
  } satisfies Record<string, string | undefined>;
  const known = Object.fromEntries(Object.entries(said).filter((entry): entry is [string, string] => entry[1] !== undefined));
  const tags = givesTags(operation, headers) ? { requestTags: readTagHeader(headers) } : {};
  return { ...known, ...lockFacts(readLockHeaders(headers) ?? {}, nowMs), ...tags };
}

/** By a header: a copy only when it does not take those of its source. */
function givesTags(operation: string, headers: Fields): boolean {
  if (operation === "CopyObject") return readDirective(headers, "tagging") === "REPLACE";
  return ["PutObject", "PostObject", "CreateMultipartUpload"].includes(operation);
}

const AUTH_TYPES = { header: "REST-HEADER", query: "REST-QUERY-STRING", form: "POST", none: undefined } as const;

function isSecure(headers: Fields, scheme: "http" | "https", byProxy: boolean): boolean {
  const forwarded = byProxy ? headers.all("x-forwarded-proto").at(-1) : undefined;
  return (forwarded?.trim().toLowerCase() ?? scheme) === "https";
}

/** Whether what a request says stays between it and us: TLS, or a client on this machine that is no proxy of others. */
export function isSecureChannel(
  { peer, headers }: Pick<RequestFacts, "peer" | "headers">,
  { isProxy, scheme }: Pick<AccessOptions, "isProxy" | "scheme">,
): boolean {
  const address = addressOf(peer);
  const byProxy = isProxy(address);
  return isSecure(headers, scheme, byProxy) || (!byProxy && isLoopback(address));
}

const isLoopback = addressesWithin(["127.0.0.0/8", "::1"]);

/** Of a peer "address:port"; an IPv4 address in IPv6 form as itself. A simulated peer has a name alone. */
function addressOf(peer: string): string {
  const end = peer.lastIndexOf(":");
  return (end < 0 ? peer : peer.slice(0, end)).replace(/^::ffff:(?=\d+\.)/i, "");
}

// The bodies S3 clients send. An element we do not know is refused: it may say something that must not be ignored.
import { bounded, granteeOf, OBJECT_OWNERSHIPS, PERMISSIONS, type Grant, type ObjectOwnership } from "../access/acl.ts";
import type { PublicAccessBlock } from "../access/authorize.ts";
import { checksumAlgorithm } from "../body/digests.ts";
import { CORS_METHODS, hasManyStars, isHeaderName, type CorsRule } from "../cors.ts";
import { S3Error } from "../errors.ts";
import { CORS_BYTES_MAX, CORS_ENTRIES_MAX, CORS_ID_CHARS_MAX, CORS_RULES_MAX, DELETE_KEYS_MAX, PARTS_MAX } from "../limits.ts";
import { deleteCondition } from "../request.ts";
import { checkTags } from "../tags.ts";
import type { ChecksumAlgorithm, DeleteCondition } from "../types.ts";
import { malformed, parseXml, type XmlElement } from "./reader.ts";

export interface CompletedPart {
  readonly number: number;
  /** Without quotes. */
  readonly etag: string;
  /** Base64, as the client repeats it. */
  readonly checksum: { readonly algorithm: ChecksumAlgorithm; readonly value: string } | undefined;
}

/** In the order they were sent; between 1 and PARTS_MAX. */
export function readCompleteMultipartUpload(bytes: Uint8Array): readonly CompletedPart[] {
  if (bytes.length === 0) throw malformed("it is empty");
  const parts = root(bytes, "CompleteMultipartUpload").children;
  if (parts.length === 0) throw malformed("it names no part");
  if (parts.length > PARTS_MAX) throw malformed(`it names more than ${PARTS_MAX} parts`);
  return parts.map(readPart);
}

function readPart(element: XmlElement): CompletedPart {
  if (element.name !== "Part") throw malformed(`${element.name} is not known here`);
  const fields = leaves(element, ["PartNumber", "ETag", ...CHECKSUM_NAMES]);
  const [number, etag] = [fields.get("PartNumber") ?? "", fields.get("ETag")];
  if (!/^\d{1,5}$/.test(number) || Number(number) < 1 || Number(number) > PARTS_MAX) throw malformed("a PartNumber is not valid");
  if (etag === undefined) throw malformed("a part has no ETag");
  const sent = CHECKSUM_NAMES.filter((name) => fields.has(name));
  if (sent.length > 1) throw malformed("a part has more than one checksum");
  const algorithm = sent[0] === undefined ? undefined : checksumAlgorithm(sent[0].slice("Checksum".length));
  return {
    number: Number(number),
    etag: unquoted(etag),
    checksum: algorithm === undefined ? undefined : { algorithm, value: fields.get(sent[0]!)! },
  };
}

const CHECKSUM_NAMES = ["ChecksumCRC32", "ChecksumCRC32C", "ChecksumCRC64NVME", "ChecksumSHA1", "ChecksumSHA256"] as const;

function unquoted(etag: string): string {
  return /^"(.*)"$/s.exec(etag)?.[1] ?? etag;
}

export interface DeleteRequest {
  /** True: only the failures are answered. */
  readonly quiet: boolean;
  readonly objects: readonly DeleteRequestObject[];
}

export interface DeleteRequestObject {
  readonly key: string;
  readonly condition: DeleteCondition;
  /** Undefined: the current one. */
  readonly versionId: string | undefined;
}

/** Between 1 and DELETE_KEYS_MAX keys. */
export function readDelete(bytes: Uint8Array): DeleteRequest {
  let quiet = false;
  const objects: DeleteRequestObject[] = [];
  const seen = new Set<string>();
  for (const element of root(bytes, "Delete").children) {
    if (element.name === "Object") objects.push(readDeleteObject(element));
    else if (element.name === "Quiet" && !seen.has("Quiet")) {
      seen.add("Quiet");
      quiet = readBoolean(element);
    } else throw malformed(`${element.name} is not known here, or there twice`);
  }
  if (objects.length === 0 || objects.length > DELETE_KEYS_MAX) throw malformed(`it must name 1 to ${DELETE_KEYS_MAX} keys`);
  return { quiet, objects };
}

function readDeleteObject(element: XmlElement): DeleteRequestObject {
  const fields = leaves(element, ["Key", "VersionId", "ETag", "LastModifiedTime", "Size"]);
  const key = fields.get("Key");
  if (key === undefined || key === "") throw malformed("an object has no key");
  const version = fields.get("VersionId") ?? "";
  const etag = fields.get("ETag");
  const condition = deleteCondition(fields.get("LastModifiedTime"), fields.get("Size"));
  const whole = { ...condition, ...(etag === undefined ? {} : { ifMatch: [unquoted(etag)] }) };
  return { key, condition: whole, versionId: version === "" ? undefined : version };
}

function readBoolean(element: XmlElement): boolean {
  const text = leaf(element).trim();
  if (text !== "true" && text !== "false") throw malformed(`${element.name} must be true or false`);
  return text === "true";
}

/** The region asked for; undefined for an empty body and for none. */
export function readCreateBucketConfiguration(bytes: Uint8Array): string | undefined {
  if (bytes.length === 0) return undefined;
  const element = root(bytes, "CreateBucketConfiguration");
  if (element.children.some(({ name }) => name === "Location" || name === "Bucket" || name === "Tags")) {
    throw new S3Error("NotImplemented", "Directory buckets, and tags at creation, are not implemented.");
  }
  const region = leaves(element, ["LocationConstraint"]).get("LocationConstraint");
  return region === "" ? undefined : region;
}

/** IllegalVersioningConfigurationException without a known status; a second factor for deletes is NotImplemented. */
export function readVersioning(bytes: Uint8Array): "enabled" | "suspended" {
  const fields = leaves(root(bytes, "VersioningConfiguration"), ["Status", "MfaDelete", "MFADelete"]);
  const factor = fields.get("MfaDelete") ?? fields.get("MFADelete") ?? "Disabled";
  if (factor !== "Disabled") throw new S3Error("NotImplemented", "MFA delete is not implemented.");
  const status = fields.get("Status");
  if (status !== "Enabled" && status !== "Suspended") throw new S3Error("IllegalVersioningConfigurationException");
  return status === "Enabled" ? "enabled" : "suspended";
}

/** What is left out is off. */
export function readPublicAccessBlock(bytes: Uint8Array): PublicAccessBlock {
  const names = ["BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"] as const;
  const fields = leaves(root(bytes, "PublicAccessBlockConfiguration"), names);
  const isOn = (name: (typeof names)[number]): boolean => {
    const text = (fields.get(name) ?? "false").trim().toLowerCase();
    if (text !== "true" && text !== "false") throw malformed(`${name} must be true or false`);
    return text === "true";
  };
  return {
    blockPublicAcls: isOn("BlockPublicAcls"),
    ignorePublicAcls: isOn("IgnorePublicAcls"),
    blockPublicPolicy: isOn("BlockPublicPolicy"),
    restrictPublicBuckets: isOn("RestrictPublicBuckets"),
  };
}

/** Whose objects are. */
export function readOwnershipControls(bytes: Uint8Array): ObjectOwnership {
  const [rule, ...more] = root(bytes, "OwnershipControls").children;
  if (rule?.name !== "Rule" || more.length > 0) throw malformed("it must have exactly one Rule");
  const said = leaves(rule, ["ObjectOwnership"]).get("ObjectOwnership");
  const ownership = OBJECT_OWNERSHIPS.find((known) => known === said);
  if (ownership === undefined) throw malformed("an ObjectOwnership is not known");
  return ownership;
}

/** The owner is undefined where it was left out. MalformedACLError, also for more than ACL_GRANTS_MAX grants; see `granteeOf`. */
export function readAcl(bytes: Uint8Array): { readonly owner: string | undefined; readonly grants: readonly Grant[] } {
  const { children } = root(bytes, "AccessControlPolicy");
  const lists = children.filter(({ name }) => name === "AccessControlList");
  const owners = children.filter(({ name }) => name === "Owner");
  if (lists.length !== 1 || owners.length > 1 || children.length !== lists.length + owners.length)
    throw new S3Error("MalformedACLError", "It must have one Owner and one AccessControlList.");
  const owner = owners[0] === undefined ? undefined : leaves(owners[0], ["ID", "DisplayName"]).get("ID");
  return { owner, grants: bounded(lists[0]!.children.map(readGrant)) };
}

function readGrant({ name, children }: XmlElement): Grant {
  const [grantee, said, ...more] = children.toSorted((one, other) => (one.name < other.name ? -1 : 1));
  if (name !== "Grant" || grantee?.name !== "Grantee" || said?.name !== "Permission" || more.length > 0)
    throw new S3Error("MalformedACLError", "A Grant has one Grantee and one Permission.");
  const permission = PERMISSIONS.find((known) => known === leaf(said));
  if (permission === undefined) throw new S3Error("MalformedACLError", "A Permission is not known.");
  const fields = leaves(grantee, ["ID", "DisplayName", "URI", "EmailAddress"]);
  const named = [...fields].filter(([field]) => field !== "DisplayName");
  if (named.length !== 1) throw new S3Error("MalformedACLError", "A Grantee has one of ID, URI and EmailAddress.");
  const [field, value] = named[0]!;
  return { grantee: granteeOf(field.toLowerCase(), value), permission };
}

/** Between 1 and CORS_RULES_MAX; InvalidRequest for one that S3 would not take. */
export function readCorsRules(bytes: Uint8Array): readonly CorsRule[] {
  if (bytes.length > CORS_BYTES_MAX) throw malformed(`it is longer than ${CORS_BYTES_MAX} bytes`);
  const rules = root(bytes, "CORSConfiguration").children;
  if (rules.length === 0 || rules.length > CORS_RULES_MAX) throw malformed(`it must have 1 to ${CORS_RULES_MAX} rules`);
  return rules.map(readCorsRule);
}

function readCorsRule(element: XmlElement): CorsRule {
  if (element.name !== "CORSRule" || element.text.trim() !== "") throw malformed(`${element.name} is not known here, or has text`);
  const lists = { AllowedOrigin: [], AllowedMethod: [], AllowedHeader: [], ExposeHeader: [] } as Record<string, string[]>;
  const single: Record<string, string> = {};
  for (const child of element.children) {
    const list = Object.hasOwn(lists, child.name) ? lists[child.name]! : undefined;
    if (list !== undefined) list.push(leaf(child).trim());
    else if ((child.name === "ID" || child.name === "MaxAgeSeconds") && single[child.name] === undefined) single[child.name] = leaf(child);
    else throw malformed(`${child.name} is not known here, or there twice`);
  }
  const { AllowedOrigin: origins = [], AllowedMethod: methods = [], AllowedHeader: headers = [], ExposeHeader: exposed = [] } = lists;
  const { ID: id, MaxAgeSeconds: age } = single;
  if (origins.length === 0 || methods.length === 0) throw malformed("a rule needs an AllowedOrigin and an AllowedMethod");
  if ([origins, methods, headers, exposed].some((list) => list.length > CORS_ENTRIES_MAX))
    throw malformed(`a rule has more than ${CORS_ENTRIES_MAX} entries of a kind`);
  if (id !== undefined && id.length > CORS_ID_CHARS_MAX) throw malformed(`an ID has more than ${CORS_ID_CHARS_MAX} characters`);
  if (age !== undefined && !/^\d{1,9}$/.test(age.trim())) throw malformed("MaxAgeSeconds must be a number");
  checkCorsEntries(origins, methods, headers, exposed);
  const maxAgeSeconds = age === undefined ? undefined : Number(age);
  return { id, origins, methods, headers: headers.map((name) => name.toLowerCase()), exposed, maxAgeSeconds };
}

function checkCorsEntries(
  origins: readonly string[],
  methods: readonly string[],
  headers: readonly string[],
  exposed: readonly string[],
): void {
  const known: readonly string[] = CORS_METHODS;
  const refuse = (what: string): never => {
    throw new S3Error("InvalidRequest", what);
  };
  if (methods.some((one) => !known.includes(one))) refuse("Found unsupported HTTP method in CORS config.");
  if (origins.some((one) => !/^[\x21-\x7e]+$/.test(one))) refuse("An AllowedOrigin is no origin.");
  if ([...origins, ...headers].some(hasManyStars)) refuse("An AllowedOrigin or AllowedHeader must not have more than one wildcard.");
  if (headers.some((one) => !isHeaderName(one))) refuse("An AllowedHeader is no header.");
  if (exposed.some((one) => !isHeaderName(one) || one.includes("*"))) refuse("An ExposeHeader is no header, or contains a wildcard.");
}

/** InvalidTag, BadRequest as for headers. */
export function readTagging(bytes: Uint8Array, maxTags: number): Record<string, string> {
  const [set, ...more] = root(bytes, "Tagging").children;
  if (set?.name !== "TagSet" || more.length > 0) throw malformed("it must have exactly one TagSet");
  const entries = set.children.map((element) => {
    const fields = element.name === "Tag" ? leaves(element, ["Key", "Value"]) : undefined;
    const [key, value] = [fields?.get("Key"), fields?.get("Value")];
    if (key === undefined || value === undefined) throw malformed("a Tag must have a Key and a Value");
    return [key, value] as const;
  });
  return checkTags(entries, maxTags);
}

export function root(bytes: Uint8Array, name: string): XmlElement {
  if (bytes.length === 0) throw new S3Error("MissingRequestBodyError");
  const element = parseXml(bytes);
  if (element.name !== name) throw malformed(`its root element must be ${name}`);
  if (element.text.trim() !== "") throw malformed("it has text between elements");
  return element;
}

/** The texts of the children, each known and there at most once. */
export function leaves(element: XmlElement, known: readonly string[]): ReadonlyMap<string, string> {
  if (element.text.trim() !== "") throw malformed("it has text between elements");
  const texts = new Map<string, string>();
  for (const child of element.children) {
    if (!known.includes(child.name) || texts.has(child.name)) throw malformed(`${child.name} is not known here, or there twice`);
    texts.set(child.name, leaf(child));
  }
  return texts;
}

export function leaf(element: XmlElement): string {
  if (element.children.length > 0) throw malformed(`${element.name} has elements`);
  return element.text;
}

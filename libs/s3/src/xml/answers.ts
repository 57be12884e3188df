// The bodies we answer with.
import { groupUri, type Acl, type Grantee, type ObjectOwnership } from "../access/acl.ts";
import type { PublicAccessBlock } from "../access/authorize.ts";
import type { CorsRule } from "../cors.ts";
import { formatIsoDate } from "../dates.ts";
import type { S3Error } from "../errors.ts";
import type { StoredChecksum, UploadChecksum } from "../types.ts";
import { escapeXml, group, keyLeaf, leaf, xmlDocument, type KeyEncoding, type Xml } from "./writer.ts";

export interface Owner {
  readonly id: string;
}

/** Of an object, a part or a copy: "ChecksumCRC32C" and "ChecksumType". */
function checksumLeaves(checksum: StoredChecksum | undefined, withType: boolean): Xml {
  if (checksum === undefined) return "";
  return leaf(`Checksum${checksum.algorithm}`, checksum.value) + (withType ? leaf("ChecksumType", checksum.type) : "");
}

function owner(name: string, { id }: Owner): Xml {
  return group(name, leaf("ID", id));
}

const quoted = (etag: string): string => `"${etag}"`;

/** The body of an error answer. Without a namespace, as S3 sends it. */
export function errorXml(error: S3Error, where: { readonly resource: string; readonly requestId: string }): string {
  const extra = Object.entries(error.elements).map(([name, value]) => leaf(name, value));
  const about = leaf("Resource", where.resource) + leaf("RequestId", where.requestId);
  return `<?xml version="1.0" encoding="UTF-8"?>\n${group("Error", leaf("Code", error.code), leaf("Message", error.message), ...extra, about)}`;
}

export function listBucketsXml(answer: {
  readonly owner: Owner;
  readonly buckets: readonly { readonly name: string; readonly region: string; readonly createdMs: number }[];
  readonly prefix?: string | undefined;
  readonly continuationToken?: string | undefined;
}): string {
  const buckets = answer.buckets.map(({ name, region, createdMs }) =>
    group("Bucket", leaf("Name", name), leaf("CreationDate", formatIsoDate(createdMs)), leaf("BucketRegion", region)),
  );
  const rest = leaf("ContinuationToken", answer.continuationToken) + leaf("Prefix", answer.prefix);
  return xmlDocument("ListAllMyBucketsResult", owner("Owner", answer.owner), group("Buckets", ...buckets), rest);
}

/** us-east-1 is said by saying nothing. */
export function locationXml(region: string): string {
  return xmlDocument("LocationConstraint", region === "us-east-1" ? "" : escapeXml(region));
}

export interface ListedObjectXml {
  readonly key: string;
  readonly sizeBytes: number;
  readonly etag: string;
  readonly modifiedMs: number;
  readonly checksum: StoredChecksum | undefined;
  /** Undefined: the bucket's owner. */
  readonly owner?: string | undefined;
}

interface ListingXml {
  readonly bucket: string;
  readonly prefix: string;
  readonly delimiter: string | undefined;
  readonly maxKeys: number;
  readonly encoding: KeyEncoding;
  readonly objects: readonly ListedObjectXml[];
  readonly commonPrefixes: readonly string[];
  readonly truncated: boolean;
  /** Undefined: owners were not asked for. */
  readonly owner: Owner | undefined;
}

function listed(answer: ListingXml): Xml[] {
  const { encoding } = answer;
  const objects = answer.objects.map((object) =>
    group(
      "Contents",
      keyLeaf("Key", object.key, encoding),
      leaf("LastModified", formatIsoDate(object.modifiedMs)),
      leaf("ETag", quoted(object.etag)),
      leaf("ChecksumAlgorithm", object.checksum?.algorithm),
      leaf("ChecksumType", object.checksum?.type),
      leaf("Size", object.sizeBytes),
      answer.owner === undefined ? "" : owner("Owner", ownerOf(object, answer.owner)),
      leaf("StorageClass", "STANDARD"),
    ),
  );
  return [...objects, ...prefixes(answer.commonPrefixes, encoding)];
}

/** Entries of a list that are another's than the bucket's owner say so. */
const ownerOf = (entry: { readonly owner?: string | undefined } | undefined, bucketOwner: Owner): Owner =>
  entry?.owner === undefined ? bucketOwner : { id: entry.owner };

function prefixes(commonPrefixes: readonly string[], encoding: KeyEncoding): Xml[] {
  return commonPrefixes.map((prefix) => group("CommonPrefixes", keyLeaf("Prefix", prefix, encoding)));
}

export function listObjectsXml(answer: ListingXml & { readonly marker: string; readonly nextMarker: string | undefined }): string {
  const { encoding } = answer;
  return xmlDocument(
    "ListBucketResult",
    leaf("Name", answer.bucket),
    keyLeaf("Prefix", answer.prefix, encoding),
    keyLeaf("Marker", answer.marker, encoding),
    keyLeaf("NextMarker", answer.nextMarker, encoding),
    leaf("MaxKeys", answer.maxKeys),
    keyLeaf("Delimiter", answer.delimiter, encoding),
    leaf("IsTruncated", answer.truncated),
    leaf("EncodingType", encoding),
    ...listed(answer),
  );
}

export function listObjectsV2Xml(
  answer: ListingXml & {
    readonly continuationToken: string | undefined;
    readonly nextContinuationToken: string | undefined;
    readonly startAfter: string | undefined;
  },
): string {
  const { encoding } = answer;
  return xmlDocument(
    "ListBucketResult",
    leaf("Name", answer.bucket),
    keyLeaf("Prefix", answer.prefix, encoding),
    leaf("KeyCount", answer.objects.length + answer.commonPrefixes.length),
    leaf("MaxKeys", answer.maxKeys),
    keyLeaf("Delimiter", answer.delimiter, encoding),
    leaf("IsTruncated", answer.truncated),
    leaf("EncodingType", encoding),
    leaf("ContinuationToken", answer.continuationToken),
    leaf("NextContinuationToken", answer.nextContinuationToken),
    keyLeaf("StartAfter", answer.startAfter, encoding),
    ...listed(answer),
  );
}

export interface ListedVersionXml {
  readonly key: string;
  readonly versionId: string;
  readonly isLatest: boolean;
  readonly modifiedMs: number;
  /** Undefined: a delete marker. */
  readonly object: Pick<ListedObjectXml, "sizeBytes" | "etag" | "checksum" | "owner"> | undefined;
}

export function listVersionsXml(
  answer: Pick<ListingXml, "bucket" | "prefix" | "delimiter" | "maxKeys" | "encoding" | "commonPrefixes"> & {
    readonly keyMarker: string;
    readonly versionIdMarker: string;
    readonly versions: readonly ListedVersionXml[];
    readonly owner: Owner;
    readonly next: { readonly key: string; readonly versionId: string | undefined } | undefined;
  },
): string {
  const { encoding, next } = answer;
  return xmlDocument(
    "ListVersionsResult",
    leaf("Name", answer.bucket),
    keyLeaf("Prefix", answer.prefix, encoding),
    keyLeaf("KeyMarker", answer.keyMarker, encoding),
    leaf("VersionIdMarker", answer.versionIdMarker),
    keyLeaf("NextKeyMarker", next?.key, encoding),
    leaf("NextVersionIdMarker", next?.versionId),
    leaf("MaxKeys", answer.maxKeys),
    keyLeaf("Delimiter", answer.delimiter, encoding),
    leaf("IsTruncated", next !== undefined),
    leaf("EncodingType", encoding),
    ...answer.versions.map((version) => versionXml(version, answer.owner, encoding)),
    ...prefixes(answer.commonPrefixes, encoding),
  );
}

function versionXml({ key, versionId, isLatest, modifiedMs, object }: ListedVersionXml, by: Owner, encoding: KeyEncoding): Xml {
  const named = [keyLeaf("Key", key, encoding), leaf("VersionId", versionId), leaf("IsLatest", isLatest)];
  const modified = leaf("LastModified", formatIsoDate(modifiedMs));
  if (object === undefined) return group("DeleteMarker", ...named, modified, owner("Owner", by));
  return group(
    "Version",
    ...named,
    modified,
    leaf("ETag", quoted(object.etag)),
    leaf("ChecksumAlgorithm", object.checksum?.algorithm),
    leaf("ChecksumType", object.checksum?.type),
    leaf("Size", object.sizeBytes),
    owner("Owner", ownerOf(object, by)),
    leaf("StorageClass", "STANDARD"),
  );
}

/** Without a status for a bucket that never had versions. */
export function versioningXml(versioning: "enabled" | "suspended" | undefined): string {
  const status = versioning === undefined ? undefined : versioning === "enabled" ? "Enabled" : "Suspended";
  return xmlDocument("VersioningConfiguration", leaf("Status", status));
}

export interface UploadNameXml {
  readonly bucket: string;
  readonly key: string;
  readonly uploadId: string;
}

export function initiateMultipartUploadXml({ bucket, key, uploadId }: UploadNameXml): string {
  return xmlDocument("InitiateMultipartUploadResult", leaf("Bucket", bucket), leaf("Key", key), leaf("UploadId", uploadId));
}

export function completeMultipartUploadXml(answer: {
  readonly location: string;
  readonly bucket: string;
  readonly key: string;
  readonly etag: string;
  readonly checksum: StoredChecksum | undefined;
}): string {
  return xmlDocument(
    "CompleteMultipartUploadResult",
    leaf("Location", answer.location),
    leaf("Bucket", answer.bucket),
    leaf("Key", answer.key),
    leaf("ETag", quoted(answer.etag)),
    checksumLeaves(answer.checksum, true),
  );
}

export interface CopiedXml {
  readonly etag: string;
  readonly modifiedMs: number;
  readonly checksum: StoredChecksum | undefined;
}

/** Of an upload by a form that asked for status 201. */
export function postResponseXml(answer: {
  readonly location: string;
  readonly bucket: string;
  readonly key: string;
  readonly etag: string;
}): string {
  const { location, bucket, key, etag } = answer;
  return xmlDocument("PostResponse", leaf("Location", location), leaf("Bucket", bucket), leaf("Key", key), leaf("ETag", quoted(etag)));
}

export function copyObjectXml({ etag, modifiedMs, checksum }: CopiedXml): string {
  const content = leaf("LastModified", formatIsoDate(modifiedMs)) + leaf("ETag", quoted(etag));
  return xmlDocument("CopyObjectResult", content, checksumLeaves(checksum, true));
}

export function copyPartXml({ etag, modifiedMs, checksum }: CopiedXml): string {
  const content = leaf("LastModified", formatIsoDate(modifiedMs)) + leaf("ETag", quoted(etag));
  return xmlDocument("CopyPartResult", content, checksumLeaves(checksum, false));
}

export interface ListedPartXml {
  readonly number: number;
  readonly etag: string;
  readonly sizeBytes: number;
  readonly modifiedMs: number;
  readonly checksum: StoredChecksum | undefined;
}

export function listPartsXml(
  answer: UploadNameXml & {
    readonly owner: Owner;
    /** Parts after this number. */
    readonly marker: number;
    readonly next: number | undefined;
    readonly maxParts: number;
    readonly encoding: KeyEncoding;
    readonly checksum: UploadChecksum | undefined;
    readonly parts: readonly ListedPartXml[];
  },
): string {
  const parts = answer.parts.map((part) =>
    group(
      "Part",
      leaf("PartNumber", part.number),
      leaf("LastModified", formatIsoDate(part.modifiedMs)),
      leaf("ETag", quoted(part.etag)),
      leaf("Size", part.sizeBytes),
      checksumLeaves(part.checksum, false),
    ),
  );
  return xmlDocument(
    "ListPartsResult",
    leaf("Bucket", answer.bucket),
    keyLeaf("Key", answer.key, answer.encoding),
    leaf("UploadId", answer.uploadId),
    leaf("PartNumberMarker", answer.marker),
    leaf("NextPartNumberMarker", answer.next ?? answer.parts.at(-1)?.number ?? 0),
    leaf("MaxParts", answer.maxParts),
    leaf("IsTruncated", answer.next !== undefined),
    leaf("EncodingType", answer.encoding),
    ...parts,
    owner("Initiator", answer.owner),
    owner("Owner", answer.owner),
    leaf("StorageClass", "STANDARD"),
    leaf("ChecksumAlgorithm", answer.checksum?.algorithm),
    leaf("ChecksumType", answer.checksum?.type),
  );
}

export function listUploadsXml(answer: {
  readonly bucket: string;
  readonly prefix: string;
  readonly delimiter: string | undefined;
  readonly keyMarker: string;
  readonly uploadIdMarker: string;
  readonly maxUploads: number;
  readonly encoding: KeyEncoding;
  readonly owner: Owner;
  readonly uploads: readonly {
    readonly key: string;
    readonly uploadId: string;
    readonly initiatedMs: number;
    readonly owner?: string | undefined;
  }[];
  readonly commonPrefixes: readonly string[];
  readonly next: { readonly key: string; readonly uploadId: string } | undefined;
}): string {
  const { encoding } = answer;
  const uploads = answer.uploads.map((upload) =>
    group(
      "Upload",
      keyLeaf("Key", upload.key, encoding),
      leaf("UploadId", upload.uploadId),
      owner("Initiator", ownerOf(upload, answer.owner)),
      owner("Owner", ownerOf(upload, answer.owner)),
      leaf("StorageClass", "STANDARD"),
      leaf("Initiated", formatIsoDate(upload.initiatedMs)),
    ),
  );
  return xmlDocument(
    "ListMultipartUploadsResult",
    leaf("Bucket", answer.bucket),
    keyLeaf("KeyMarker", answer.keyMarker, encoding),
    leaf("UploadIdMarker", answer.uploadIdMarker),
    keyLeaf("NextKeyMarker", answer.next?.key ?? "", encoding),
    leaf("NextUploadIdMarker", answer.next?.uploadId ?? ""),
    keyLeaf("Prefix", answer.prefix, encoding),
    keyLeaf("Delimiter", answer.delimiter, encoding),
    leaf("MaxUploads", answer.maxUploads),
    leaf("IsTruncated", answer.next !== undefined),
    leaf("EncodingType", encoding),
    ...uploads,
    ...prefixes(answer.commonPrefixes, encoding),
  );
}

export interface DeletedXml {
  readonly key: string;
  /** As it was asked for. */
  readonly versionId: string | undefined;
  /** Of the delete marker that was put, or that was the version deleted. */
  readonly markerId: string | undefined;
}

function deletedXml({ key, versionId, markerId }: DeletedXml): Xml {
  const marker = markerId === undefined ? "" : leaf("DeleteMarker", true) + leaf("DeleteMarkerVersionId", markerId);
  return group("Deleted", leaf("Key", key), leaf("VersionId", versionId), marker);
}

export function deleteResultXml(answer: {
  readonly quiet: boolean;
  readonly deleted: readonly DeletedXml[];
  readonly failed: readonly { readonly key: string; readonly versionId: string | undefined; readonly error: S3Error }[];
}): string {
  const deleted = answer.quiet ? [] : answer.deleted.map(deletedXml);
  const failed = answer.failed.map(({ key, versionId, error }) =>
    group("Error", leaf("Key", key), leaf("VersionId", versionId), leaf("Code", error.code), leaf("Message", error.message)),
  );
  return xmlDocument("DeleteResult", ...deleted, ...failed);
}

export function taggingXml(tags: Readonly<Record<string, string>>): string {
  const set = Object.entries(tags).map(([key, value]) => group("Tag", leaf("Key", key), leaf("Value", value)));
  return xmlDocument("Tagging", group("TagSet", ...set));
}

/** Only what was asked for in x-amz-object-attributes is there. */
export function objectAttributesXml(answer: {
  readonly etag?: string | undefined;
  readonly checksum?: StoredChecksum | undefined;
  readonly parts?:
    | {
        readonly total: number;
        readonly marker: number;
        readonly next: number | undefined;
        readonly maxParts: number;
        readonly parts: readonly { readonly number: number; readonly sizeBytes: number; readonly checksum: StoredChecksum | undefined }[];
      }
    | undefined;
  readonly storageClass?: "STANDARD" | undefined;
  readonly sizeBytes?: number | undefined;
}): string {
  const { parts } = answer;
  const listedParts = parts?.parts.map((part) =>
    group("Part", leaf("PartNumber", part.number), leaf("Size", part.sizeBytes), checksumLeaves(part.checksum, false)),
  );
  return xmlDocument(
    "GetObjectAttributesResponse",
    leaf("ETag", answer.etag),
    answer.checksum === undefined ? "" : group("Checksum", checksumLeaves(answer.checksum, true)),
    parts === undefined
      ? ""
      : group(
          "ObjectParts",
          leaf("PartsCount", parts.total),
          leaf("PartNumberMarker", parts.marker),
          leaf("NextPartNumberMarker", parts.next ?? parts.parts.at(-1)?.number ?? 0),
          leaf("MaxParts", parts.maxParts),
          leaf("IsTruncated", parts.next !== undefined),
          ...(listedParts ?? []),
        ),
    leaf("StorageClass", answer.storageClass),
    leaf("ObjectSize", answer.sizeBytes),
  );
}

export function aclXml(acl: Acl): string {
  const grants = acl.grants.map((grant) => group("Grant", granteeXml(grant.grantee), leaf("Permission", grant.permission)));
  return xmlDocument("AccessControlPolicy", owner("Owner", { id: acl.owner }), group("AccessControlList", ...grants));
}

function granteeXml(grantee: Grantee): Xml {
  const [type, content] = grantee.kind === "tenant" ? ["CanonicalUser", leaf("ID", grantee.id)] : ["Group", leaf("URI", groupUri(grantee))];
  return `<Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="${type}">${content}</Grantee>`;
}

export function corsXml(rules: readonly CorsRule[]): string {
  const listed = rules.map((rule) =>
    group(
      "CORSRule",
      leaf("ID", rule.id),
      ...rule.headers.map((one) => leaf("AllowedHeader", one)),
      ...rule.methods.map((one) => leaf("AllowedMethod", one)),
      ...rule.origins.map((one) => leaf("AllowedOrigin", one)),
      ...rule.exposed.map((one) => leaf("ExposeHeader", one)),
      leaf("MaxAgeSeconds", rule.maxAgeSeconds),
    ),
  );
  return xmlDocument("CORSConfiguration", ...listed);
}

export function ownershipControlsXml(ownership: ObjectOwnership): string {
  return xmlDocument("OwnershipControls", group("Rule", leaf("ObjectOwnership", ownership)));
}

/** Of a bucket that has none of it. */
export function emptySettingXml(name: "BucketLoggingStatus" | "AccelerateConfiguration"): string {
  return xmlDocument(name);
}

/** Who asks pays nothing. */
export function requestPaymentXml(): string {
  return xmlDocument("RequestPaymentConfiguration", leaf("Payer", "BucketOwner"));
}

export function policyStatusXml(isPublic: boolean): string {
  return xmlDocument("PolicyStatus", leaf("IsPublic", isPublic));
}

export function publicAccessBlockXml(block: PublicAccessBlock): string {
  return xmlDocument(
    "PublicAccessBlockConfiguration",
    leaf("BlockPublicAcls", block.blockPublicAcls),
    leaf("IgnorePublicAcls", block.ignorePublicAcls),
    leaf("BlockPublicPolicy", block.blockPublicPolicy),
    leaf("RestrictPublicBuckets", block.restrictPublicBuckets),
  );
}

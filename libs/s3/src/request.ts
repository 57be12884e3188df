// What an S3 request says in its headers besides its signature and its body.
import { allowsType } from "./body/combine-digests.ts";
import { checksumAlgorithm } from "./body/digests.ts";
import { headerChecksums } from "./body/expected.ts";
import { parseHttpDate } from "./dates.ts";
import { percentDecode, utf8Bytes } from "./encoding.ts";
import { S3Error } from "./errors.ts";
import type { Fields } from "./fields.ts";
import { ETAGS_PER_CONDITION_MAX, KEY_BYTES_MAX, METADATA_BYTES_MAX, TAGS_PER_OBJECT_MAX } from "./limits.ts";
import { checkTags } from "./tags.ts";
import { parseQuery } from "./target.ts";
import type { ByteRange, ChecksumType, DeleteCondition, ObjectAttributes, Precondition, StoredChecksum, UploadChecksum } from "./types.ts";

/** A single range of bytes; undefined for none, and (as RFC 9110 and S3 have it) for several and for what is no range: the whole object. */
export function readRange(headers: Fields): ByteRange | undefined {
  return parseRange(headers.one("range"));
}

function parseRange(text: string | undefined): ByteRange | undefined {
  const [, first, last] = /^bytes=(\d{0,40})-(\d{0,40})$/.exec(text ?? "") ?? [];
  if (first === undefined || last === undefined || (first === "" && last === "")) return undefined;
  // Behind the end of every object, and exact.
  const offset = (text: string): number | undefined => (text === "" ? undefined : Math.min(Number(text), OFFSET_MAX));
  const range = { first: offset(first), last: offset(last) };
  return range.first !== undefined && range.last !== undefined && range.last < range.first ? undefined : range;
}

const OFFSET_MAX = 2 ** 52;

const CONDITION_NAMES = {
  object: { match: "if-match", noneMatch: "if-none-match", modified: "if-modified-since", unmodified: "if-unmodified-since" },
  source: {
    match: "x-amz-copy-source-if-match",
    noneMatch: "x-amz-copy-source-if-none-match",
    modified: "x-amz-copy-source-if-modified-since",
    unmodified: "x-amz-copy-source-if-unmodified-since",
  },
} as const;

/** The conditions on the object itself, or on the source of a copy. A date that is none is ignored, as RFC 9110 has it. */
export function readPrecondition(headers: Fields, of: "object" | "source" = "object"): Precondition {
  const names = CONDITION_NAMES[of];
  const date = (name: string): number | undefined => parseHttpDate(headers.one(name) ?? "");
  const [ifMatch, ifNoneMatch] = [readEtags(headers, names.match), readEtags(headers, names.noneMatch)];
  const [ifModifiedSinceMs, ifUnmodifiedSinceMs] = [date(names.modified), date(names.unmodified)];
  return {
    ...(ifMatch === undefined ? {} : { ifMatch }),
    ...(ifNoneMatch === undefined ? {} : { ifNoneMatch }),
    ...(ifModifiedSinceMs === undefined ? {} : { ifModifiedSinceMs }),
    ...(ifUnmodifiedSinceMs === undefined ? {} : { ifUnmodifiedSinceMs }),
  };
}

/** The conditions of DeleteObject. */
export function readDeleteCondition(headers: Fields): DeleteCondition {
  if (headers.has("if-none-match")) throw new S3Error("NotImplemented", "A delete with If-None-Match is not implemented.");
  const ifMatch = readEtags(headers, "if-match");
  return {
    ...(ifMatch === undefined ? {} : { ifMatch }),
    ...deleteCondition(headers.one("x-amz-if-match-last-modified-time"), headers.one("x-amz-if-match-size")),
  };
}

/** Of a delete: when it was modified, as an HTTP or ISO date, and how long it is. InvalidArgument: unlike in reads, none may be ignored. */
export function deleteCondition(modified: string | undefined, size: string | undefined): Omit<DeleteCondition, "ifMatch"> {
  const modifiedMs = modified === undefined ? undefined : (parseHttpDate(modified) ?? isoDate(modified));
  if (modified !== undefined && modifiedMs === undefined)
    throw new S3Error("InvalidArgument", "The last modified time to match is no date.");
  if (size !== undefined && !/^\d{1,15}$/.test(size)) throw new S3Error("InvalidArgument", "The size to match is no number of bytes.");
  return { ...(modifiedMs === undefined ? {} : { modifiedMs }), ...(size === undefined ? {} : { sizeBytes: Number(size) }) };
}

function isoDate(text: string): number | undefined {
  return /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$/.test(text) ? Date.parse(text) || undefined : undefined;
}

/** ETags without quotes and without W/; S3 clients also send them bare. "*" stands alone. */
function readEtags(headers: Fields, name: string): string[] | undefined {
  const values = headers.all(name);
  if (values.length === 0) return undefined;
  const parts = values.flatMap((value) => value.split(",")).map((part) => part.trim());
  const etags = parts.map((part) => /^(?:W\/)?"([^"]*)"$/.exec(part)?.[1] ?? (/^[^"]+$/.test(part) ? part : undefined));
  const isUsable = etags.length <= ETAGS_PER_CONDITION_MAX && etags.every((etag) => etag !== undefined);
  if (!isUsable || (etags.includes("*") && etags.length > 1)) throw new S3Error("InvalidArgument", `${name} must be a list of ETags.`);
  return etags as string[];
}

export interface CopySourceName {
  readonly bucket: string;
  readonly key: string;
  /** Of x-amz-copy-source-range, part copies only. */
  readonly range: ByteRange | undefined;
  readonly precondition: Precondition;
  /** Undefined: the current one. */
  readonly versionId: string | undefined;
}

/** Undefined when the request is no copy. "[/]bucket/key", percent-encoded with "+" for a blank, and "?versionId=". */
export function readCopySource(headers: Fields): CopySourceName | undefined {
  const text = headers.one("x-amz-copy-source");
  if (text === undefined) return undefined;
  const [path, version, ...rest] = text.split("?versionId=");
  const decoded = decodeSource(path!);
  const [, bucket, key] = /^\/?([^/]+)\/(.+)$/s.exec(decoded) ?? [];
  if (bucket === undefined || key === undefined || rest.length > 0 || utf8Bytes(key) > KEY_BYTES_MAX) {
    throw new S3Error("InvalidArgument", "Copy Source must mention the source bucket and key: sourcebucket/sourcekey");
  }
  const rangeText = headers.one("x-amz-copy-source-range");
  const range = parseRange(rangeText);
  if (rangeText !== undefined && (range?.first === undefined || range.last === undefined)) {
    throw new S3Error("InvalidArgument", "The x-amz-copy-source-range value must be of the form bytes=first-last.");
  }
  return { bucket, key, range, precondition: readPrecondition(headers, "source"), versionId: version };
}

function decodeSource(path: string): string {
  try {
    // S3 decodes this header as it does a query.
    return percentDecode(path.replaceAll("+", "%20"));
  } catch {
    throw new S3Error("InvalidArgument", "x-amz-copy-source is not percent-encoded UTF-8.");
  }
}

/** x-amz-metadata-directive or x-amz-tagging-directive. */
export function readDirective(headers: Fields, of: "metadata" | "tagging"): "COPY" | "REPLACE" {
  const value = headers.one(`x-amz-${of}-directive`) ?? "COPY";
  if (value !== "COPY" && value !== "REPLACE") throw new S3Error("InvalidArgument", `Unknown ${of} directive.`);
  return value;
}

const STORED_HEADERS = ["content-type", "content-language", "content-disposition", "cache-control", "expires"];
const METADATA_PREFIX = "x-amz-meta-";

/** What is stored with an object as the client gave it. MetadataTooLarge, InvalidTag. */
export function readAttributes(headers: Fields): ObjectAttributes {
  const stored: Record<string, string> = {};
  for (const name of STORED_HEADERS) {
    const value = headers.one(name);
    if (value !== undefined && value !== "") stored[name] = value;
  }
  const encoding = storedEncoding(headers);
  if (encoding !== "") stored["content-encoding"] = encoding;
  return { headers: stored, metadata: readMetadata(headers), tags: readTagHeader(headers) };
}

/** aws-chunked is how the body travels, not how it is stored. */
function storedEncoding(headers: Fields): string {
  const codings = headers.all("content-encoding").flatMap((value) => value.split(","));
  return codings
    .map((coding) => coding.trim())
    .filter((coding) => coding !== "" && coding.toLowerCase() !== "aws-chunked")
    .join(", ");
}

/** A name that was sent twice has both values, joined by a comma. Values are bytes, kept as node hands them out. */
function readMetadata(headers: Fields): Record<string, string> {
  const metadata = new Map<string, string>();
  let bytes = 0;
  for (const [name, value] of headers.entries) {
    if (!name.startsWith(METADATA_PREFIX)) continue;
    const short = name.slice(METADATA_PREFIX.length);
    const earlier = metadata.get(short);
    metadata.set(short, earlier === undefined ? value : `${earlier},${value}`);
    bytes += short.length + utf8Bytes(value);
  }
  if (bytes > METADATA_BYTES_MAX) {
    const elements = { Size: String(bytes), MaxSizeAllowed: String(METADATA_BYTES_MAX) };
    throw new S3Error("MetadataTooLarge", undefined, { elements });
  }
  return Object.fromEntries(metadata);
}

/** x-amz-tagging: a query string. */
export function readTagHeader(headers: Fields): Record<string, string> {
  const text = headers.one("x-amz-tagging");
  if (text === undefined || text === "") return {};
  return checkTags(parseTagQuery(text).entries, TAGS_PER_OBJECT_MAX);
}

function parseTagQuery(text: string): Fields {
  try {
    return parseQuery(text);
  } catch {
    throw new S3Error("InvalidArgument", "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters.");
  }
}

/** x-amz-checksum-algorithm and x-amz-checksum-type of CreateMultipartUpload; undefined: none asked for. */
export function readUploadChecksum(headers: Fields): UploadChecksum | undefined {
  const name = headers.one("x-amz-checksum-algorithm") ?? headers.one("x-amz-sdk-checksum-algorithm");
  const type = readChecksumType(headers);
  if (name === undefined) {
    if (type === undefined) return undefined;
    throw new S3Error("InvalidRequest", "The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm header.");
  }
  const algorithm = checksumAlgorithm(name);
  if (algorithm === undefined) throw new S3Error("InvalidRequest", "Checksum algorithm provided is unsupported.");
  const checksum: UploadChecksum = { algorithm, type: type ?? (algorithm === "CRC64NVME" ? "FULL_OBJECT" : "COMPOSITE") };
  if (!allowsType(checksum)) {
    throw new S3Error(
      "InvalidRequest",
      `The ${checksum.type} checksum type cannot be used with the ${algorithm.toLowerCase()} checksum algorithm.`,
    );
  }
  return checksum;
}

/** The checksum of the whole object that CompleteMultipartUpload may name in a header. */
export function readCompleteChecksum(headers: Fields): StoredChecksum | undefined {
  const [sent, ...more] = headerChecksums(headers, "allowed");
  if (more.length > 0) throw new S3Error("InvalidRequest", "Expecting a single x-amz-checksum- header.");
  const type = readChecksumType(headers);
  if (sent === undefined) return undefined;
  return { algorithm: sent.algorithm, value: sent.value, type: type ?? (/-\d+$/.test(sent.value) ? "COMPOSITE" : "FULL_OBJECT") };
}

function readChecksumType(headers: Fields): ChecksumType | undefined {
  const type = headers.one("x-amz-checksum-type");
  if (type === undefined || type === "FULL_OBJECT" || type === "COMPOSITE") return type;
  throw new S3Error("InvalidRequest", "Value for x-amz-checksum-type header is invalid.");
}

const OVERRIDES = {
  "response-cache-control": "cache-control",
  "response-content-disposition": "content-disposition",
  "response-content-encoding": "content-encoding",
  "response-content-language": "content-language",
  "response-content-type": "content-type",
  "response-expires": "expires",
} as const;

/** Headers of a GET or HEAD answer that the client wants instead of the stored ones. */
export function readOverrides(query: Fields): Readonly<Record<string, string>> {
  const overrides: Record<string, string> = {};
  for (const [parameter, header] of Object.entries(OVERRIDES)) {
    const value = query.one(parameter);
    if (value === undefined) continue;
    if (/[^\x20-\x7e\xa0-\xff]/.test(value)) throw new S3Error("InvalidArgument", `${parameter} must be printable, and of ISO 8859-1.`);
    overrides[header] = value;
  }
  return overrides;
}

/** A whole number in the query, `fallback` when absent; InvalidArgument outside `min` .. `max`. */
export function readNumber(query: Fields, name: string, fallback: number, [min, max]: readonly [number, number]): number {
  const text = query.one(name);
  if (text === undefined || text === "") return fallback;
  const value = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isNaN(value) || value < min || value > max) {
    const elements = { ArgumentName: name, ArgumentValue: text };
    throw new S3Error("InvalidArgument", `${name} must be an integer between ${min} and ${max}`, { elements });
  }
  return value;
}

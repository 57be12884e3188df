// What the S3 API reference knows: a server that lacks one of these names must refuse it; any other name has no meaning and is ignored, as S3 does.
import { API_FIELDS, API_SUBRESOURCES } from "./api-fields.ts";

interface Names {
  readonly query: ReadonlySet<string>;
  readonly headers: ReadonlySet<string>;
  /** Beginnings of headers. */
  readonly prefixes: readonly string[];
}

/** Headers of every request, which the model of the operations does not list. */
const EVERY = ["x-amz-date", "x-amz-content-sha256", "x-amz-security-token", "x-amz-decoded-content-length", "x-amz-trailer"];
/** Beginning of every header that the reference has. */
const API_HEADER = "x-amz-";
/** Headers that guard or protect what is written: never ignored, whether the reference has them already or not. */
const GUARDED_FAMILIES = [
  "x-amz-checksum-",
  "x-amz-copy-source",
  "x-amz-if-",
  "x-amz-object-lock-",
  "x-amz-server-side-encryption",
  "x-amz-sdk-checksum-",
];
/** Asks for checksums in the response. */
const CHECKSUM_MODE = "x-amz-checksum-mode";
/** Sub-resources of other servers that change what a write does: without them the object would be replaced. */
const OF_OTHERS = ["append", "position"];
/** Parameters that only operations have which the address and its sub-resources do not tell from others: ListDirectoryBuckets is no ListBuckets. */
const OF_OPERATIONS = ["max-directory-buckets"];
const split = (names: string): readonly string[] => names.split(" ").filter((name) => name !== "");
const SUBRESOURCES: ReadonlySet<string> = new Set([...split(API_SUBRESOURCES), ...OF_OTHERS, ...OF_OPERATIONS]);
const OPERATIONS: ReadonlyMap<string, Names> = new Map(
  Object.entries(API_FIELDS).map(([operation, [query, headers]]) => [operation, namesOf(split(query), split(headers))]),
);
const ALL = namesOf([], [...EVERY, ...Object.values(API_FIELDS).flatMap(([, headers]) => split(headers))]);

function namesOf(query: readonly string[], headers: readonly string[]): Names {
  return {
    query: new Set(query),
    headers: new Set(headers.filter((name) => !name.endsWith("*"))),
    prefixes: [...new Set(headers.filter((name) => name.endsWith("*")).map((name) => name.slice(0, -1)))],
  };
}

/** Whether a query name selects another operation than the address alone does. */
export function isSubresource(name: string): boolean {
  return SUBRESOURCES.has(name);
}

/** Whether the reference gives the operation this parameter or x-amz-* header. A form has the fields of PutObject. */
export function isApiField(operation: string, kind: "query" | "header", name: string): boolean {
  const names = OPERATIONS.get(operation === "PostObject" ? "PutObject" : operation);
  if (names === undefined) return false;
  return kind === "query" ? names.query.has(name) : hasHeader(names, name);
}

/** Whether a header has a meaning: an operation has it, or it belongs to a family that a later reference may extend. */
export function isGuarded(name: string): boolean {
  return name.startsWith(API_HEADER) && (hasHeader(ALL, name) || isOfGuardedFamily(name));
}

export function isOfGuardedFamily(name: string): boolean {
  return name !== CHECKSUM_MODE && GUARDED_FAMILIES.some((family) => name.startsWith(family));
}

const hasHeader = ({ headers, prefixes }: Names, name: string): boolean =>
  headers.has(name) || prefixes.some((prefix) => name.startsWith(prefix));

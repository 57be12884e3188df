// Parameters and headers of a request beyond its operation. What S3 knows and this operation does not honour is refused, so that a feature we lack is
// never a wrong success; what S3 does not know has no meaning, is ignored as S3 does, and counted.
import { isApiField, isOfGuardedFamily, isSubresource, S3Error, type Fields } from "@concord/s3";
import type { Route } from "./routes.ts";

/** Honoured, or harmless, on every request. */
const EVERY_HEADER: ReadonlySet<string> = new Set([
  "x-amz-date",
  "x-amz-content-sha256",
  "x-amz-user-agent",
  "x-amz-request-payer",
  "x-amz-expected-bucket-owner",
]);
const CONDITIONS = ["if-match", "if-none-match"];
/** Name what a request is about: another answer than the named one would be wrong with every operation. */
const SELECTORS: ReadonlySet<string> = new Set(["versionId", "partNumber", "uploadId"]);
/** Credentials that there are none of here. */
const CREDENTIALS: ReadonlySet<string> = new Set(["x-amz-security-token", "x-amz-s3session-token"]);
const STORAGE_CLASS = "x-amz-storage-class";
const ENCRYPTION = "x-amz-server-side-encryption";

const refusal = (what: string): S3Error => new S3Error("NotImplemented", `${what} is not implemented here.`);

type Accepting = Omit<Route, "handle">;
/** Called once for each name that has no meaning. */
export type OnIgnored = (kind: "parameter" | "header") => void;

/** `headers` are the effective ones, with those of a presigned query. */
export function checkFeatures(route: Accepting, query: Fields, headers: Fields, presigned: boolean, onIgnored: OnIgnored): void {
  for (const [name] of query.entries) if (!honoursParameter(route, name, presigned)) onIgnored("parameter");
  for (const [name, value] of headers.entries) if (!honoursHeader(route, name, value)) onIgnored("header");
}

/** NotImplemented for what must not be ignored; false: it has no meaning. */
function honoursParameter(route: Accepting, name: string, presigned: boolean): boolean {
  const isHeader = /^x-amz-/i.test(name);
  // A presigned URL may carry headers as parameters; those are checked as headers.
  if (isHeader && presigned) return true;
  if (route.picks.includes(name) || route.query.includes(name)) return true;
  const header = name.toLowerCase();
  const isKnown = isHeader
    ? isApiField(route.operation, "header", header) || isOfGuardedFamily(header) || CREDENTIALS.has(header)
    : isSubresource(name) || SELECTORS.has(name) || isApiField(route.operation, "query", name);
  if (isKnown) throw refusal(`The parameter ${name} with ${route.operation}`);
  // S3 leaves names that begin like this to its users, for its access log; SDKs name the operation in x-id.
  return name.startsWith("x-");
}

function honoursHeader(route: Accepting, name: string, value: string): boolean {
  if (CONDITIONS.includes(name) && !route.conditional && isWrite(route)) throw refusal(`The header ${name} with ${route.operation}`);
  if (!name.startsWith("x-amz-") || EVERY_HEADER.has(name)) return true;
  if (route.headers.some((pattern) => matches(pattern, name))) {
    // The one class there is: data of another class would be stored in a way that the client did not ask for.
    if (name === STORAGE_CLASS && value !== "STANDARD") throw unsupported(name);
    return true;
  }
  if (name.startsWith(ENCRYPTION)) throw new S3Error("InvalidArgument", `The header ${name} is not accepted with ${route.operation}.`);
  if (isApiField(route.operation, "header", name) || CREDENTIALS.has(name)) throw unsupported(name);
  if (isWrite(route) && isOfGuardedFamily(name)) throw refusal(`The header ${name} with ${route.operation}`);
  return false;
}

const unsupported = (Header: string): S3Error =>
  new S3Error("NotImplemented", "A header you provided implies functionality that is not implemented", { elements: { Header } });
const isWrite = (route: Accepting): boolean => route.method !== "GET" && route.method !== "HEAD";
const matches = (pattern: string, name: string): boolean =>
  pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : name === pattern;

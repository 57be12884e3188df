// Parameters and headers of a request beyond its operation. Default-deny: a parameter or x-amz-* header that is not known to be honoured by this
// operation is refused, so that a feature we lack is never a wrong success.
import { refuseUnsupported, S3Error, type Fields } from "@concord/s3";
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

const refusal = (what: string): S3Error => new S3Error("NotImplemented", `${what} is not implemented here.`);

type Accepting = Omit<Route, "handle">;

/** `headers` are the effective ones, with those of a presigned query. */
export function checkFeatures(route: Accepting, query: Fields, headers: Fields, presigned: boolean): void {
  for (const [name] of query.entries) checkParameter(route, name, presigned);
  for (const [name] of headers.entries) checkHeader(route, name);
  // Accepted only with the values that ask for the default.
  refuseUnsupported(headers);
}

function checkParameter(route: Accepting, name: string, presigned: boolean): void {
  // A presigned URL may carry headers as parameters; those are checked as headers.
  if (/^x-amz-/i.test(name) && presigned) return;
  // S3 leaves parameters that begin like this to its users, for its access log; SDKs name the operation in x-id.
  if (name.startsWith("x-") && !name.startsWith("x-amz-")) return;
  if (!route.picks.includes(name) && !route.query.includes(name)) throw refusal(`The parameter ${name} with ${route.operation}`);
}

function checkHeader(route: Accepting, name: string): void {
  if (CONDITIONS.includes(name) && !route.conditional && isWrite(route)) throw refusal(`The header ${name} with ${route.operation}`);
  if (!name.startsWith("x-amz-") || EVERY_HEADER.has(name)) return;
  if (!route.headers.some((pattern) => matches(pattern, name))) throw refusal(`The header ${name} with ${route.operation}`);
}

const isWrite = (route: Accepting): boolean => route.method !== "GET" && route.method !== "HEAD";
const matches = (pattern: string, name: string): boolean =>
  pattern.endsWith("*") ? name.startsWith(pattern.slice(0, -1)) : name === pattern;

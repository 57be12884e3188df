// Which pages of other origins a browser lets use a bucket: the rules of its owner. They allow no request that `authorize` does not.
import { CORS_HEADERS_ASKED_MAX } from "./limits.ts";

export const CORS_METHODS = ["GET", "PUT", "POST", "DELETE", "HEAD"] as const;

/** As the owner put it. Origins and headers have at most one `*`, which stands for any text. */
export interface CorsRule {
  readonly id: string | undefined;
  readonly origins: readonly string[];
  readonly methods: readonly string[];
  /** In lower case. */
  readonly headers: readonly string[];
  readonly exposed: readonly string[];
  readonly maxAgeSeconds: number | undefined;
}

/** What a browser says before a request ("preflight"), or with it: then without headers. */
export interface CorsRequest {
  readonly origin: string;
  readonly method: string;
  /** In lower case. */
  readonly headers: readonly string[];
}

type Header = readonly [name: string, value: string];

/** The answer differs by these: caches must not give one origin's answer to another. */
export const CORS_VARY: Header = ["vary", "Origin, Access-Control-Request-Headers, Access-Control-Request-Method"];

/** Headers of an answer by the first rule that fits; undefined: none does. An origin allowed by `*` is never allowed credentials. */
export function corsHeaders(rules: readonly CorsRule[], request: CorsRequest): readonly Header[] | undefined {
  for (const rule of rules) {
    const { origin, method, headers } = request;
    const allowed = rule.origins.find((pattern) => matchesOneStar(pattern, origin));
    if (allowed === undefined || !rule.methods.includes(method)) continue;
    if (!headers.every((name) => rule.headers.some((pattern) => matchesOneStar(pattern, name)))) continue;
    return headersOf(rule, allowed, request);
  }
  return undefined;
}

function headersOf(rule: CorsRule, allowed: string, { origin, headers }: CorsRequest): readonly Header[] {
  const isForAll = allowed === "*";
  return [
    ["access-control-allow-origin", isForAll ? "*" : origin],
    ...(isForAll ? [] : [["access-control-allow-credentials", "true"] as const]),
    ["access-control-allow-methods", rule.methods.join(", ")],
    ...(headers.length === 0 ? [] : [["access-control-allow-headers", headers.join(", ")] as const]),
    ...(rule.exposed.length === 0 ? [] : [["access-control-expose-headers", rule.exposed.join(", ")] as const]),
    ...(rule.maxAgeSeconds === undefined ? [] : [["access-control-max-age", String(rule.maxAgeSeconds)] as const]),
  ];
}

/** Names of Access-Control-Request-Headers in lower case; undefined when they are no names of headers, or too many. */
export function readAskedHeaders(text: string | undefined): readonly string[] | undefined {
  const names = (text ?? "")
    .split(",")
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== "");
  return names.length <= CORS_HEADERS_ASKED_MAX && names.every(isHeaderName) ? names : undefined;
}

export const isHeaderName = (text: string): boolean => /^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,256}$/.test(text);

export const hasManyStars = (text: string): boolean => text.indexOf("*") !== text.lastIndexOf("*");

function matchesOneStar(pattern: string, text: string): boolean {
  const star = pattern.indexOf("*");
  if (star < 0) return pattern === text;
  const [before, after] = [pattern.slice(0, star), pattern.slice(star + 1)];
  return text.length >= before.length + after.length && text.startsWith(before) && text.endsWith(after);
}

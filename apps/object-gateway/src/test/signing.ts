// Requests signed by hand, so that a test can break exactly one thing. Written from the description of Signature Version 4, not from our verifier.
import { createHash, createHmac } from "node:crypto";

export interface AccessKey {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly tenant: string;
}

export interface Unsigned {
  readonly method: string;
  /** Decoded; each segment is encoded here. */
  readonly path: string;
  /** Instead of the encoded path: sent as it is, and signed as it is. */
  readonly rawPath?: string;
  readonly query?: readonly (readonly [string, string])[];
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array | string;
}

export interface SigningOptions {
  readonly key: AccessKey;
  readonly host: string;
  readonly region?: string;
  readonly service?: string;
  readonly nowMs?: number;
  /** x-amz-content-sha256; the body's own hash when not given. */
  readonly payload?: string;
  /** Headers that are sent but not signed. */
  readonly unsigned?: Readonly<Record<string, string>>;
}

export interface Signed {
  readonly method: string;
  /** Path and query as sent. */
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

const encode = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`);
export const encodePath = (path: string): string => path.split("/").map(encode).join("/");
const sha256 = (bytes: Uint8Array | string): string => createHash("sha256").update(bytes).digest("hex");
const hmac = (key: Uint8Array | string, text: string): Buffer => createHmac("sha256", key).update(text).digest();
export const timestampOf = (ms: number): string => new Date(ms).toISOString().replace(/[-:]|\.\d{3}/g, "");

const bytesOf = (body: Uint8Array | string | undefined): Uint8Array =>
  typeof body === "string" ? new TextEncoder().encode(body) : (body ?? new Uint8Array(0));

const queryText = (query: readonly (readonly [string, string])[]): string =>
  query
    .map(([name, value]) => [encode(name), encode(value)] as const)
    .toSorted(([a, x], [b, y]) => (a === b ? (x < y ? -1 : 1) : a < b ? -1 : 1))
    .map(([name, value]) => `${name}=${value}`)
    .join("&");

function signature(options: SigningOptions, timestamp: string, canonical: string): string {
  const { key, region = "us-east-1", service = "s3" } = options;
  const date = timestamp.slice(0, 8);
  const text = `AWS4-HMAC-SHA256\n${timestamp}\n${date}/${region}/${service}/aws4_request\n${sha256(canonical)}`;
  const signing = [date, region, service, "aws4_request"].reduce<Uint8Array | string>(
    (last, part) => hmac(last, part),
    `AWS4${key.secretAccessKey}`,
  );
  return hmac(signing, text).toString("hex");
}

function canonicalOf(request: Unsigned, path: string, query: string, headers: Readonly<Record<string, string>>, payload: string): string {
  const names = Object.keys(headers).sort();
  return [request.method, path, query, ...names.map((name) => `${name}:${headers[name]!.trim()}`), "", names.join(";"), payload].join("\n");
}

/** Signed in the Authorization header. */
export function sign(request: Unsigned, options: SigningOptions): Signed {
  const { key, host, region = "us-east-1", service = "s3", nowMs = Date.now() } = options;
  const body = bytesOf(request.body);
  const timestamp = timestampOf(nowMs);
  const payload = options.payload ?? sha256(body);
  const path = request.rawPath ?? encodePath(request.path);
  const query = queryText(request.query ?? []);
  const headers = { host, "x-amz-date": timestamp, "x-amz-content-sha256": payload, ...request.headers };
  const made = signature(options, timestamp, canonicalOf(request, path, query, headers, payload));
  const scope = `${key.accessKeyId}/${timestamp.slice(0, 8)}/${region}/${service}/aws4_request`;
  const authorization = `AWS4-HMAC-SHA256 Credential=${scope}, SignedHeaders=${Object.keys(headers).sort().join(";")}, Signature=${made}`;
  return {
    method: request.method,
    target: query === "" ? path : `${path}?${query}`,
    headers: { ...headers, authorization, ...options.unsigned },
    body,
  };
}

/** Signed in the query. */
export function presign(request: Unsigned, options: SigningOptions & { readonly expiresSeconds?: number | string }): Signed {
  const { key, host, region = "us-east-1", service = "s3", nowMs = Date.now(), expiresSeconds = 900 } = options;
  const timestamp = timestampOf(nowMs);
  const path = request.rawPath ?? encodePath(request.path);
  const headers = { host, ...request.headers };
  const query = queryText([
    ...(request.query ?? []),
    ["X-Amz-Algorithm", "AWS4-HMAC-SHA256"],
    ["X-Amz-Credential", `${key.accessKeyId}/${timestamp.slice(0, 8)}/${region}/${service}/aws4_request`],
    ["X-Amz-Date", timestamp],
    ["X-Amz-Expires", String(expiresSeconds)],
    ["X-Amz-SignedHeaders", Object.keys(headers).sort().join(";")],
  ]);
  const made = signature(options, timestamp, canonicalOf(request, path, query, headers, options.payload ?? "UNSIGNED-PAYLOAD"));
  return {
    method: request.method,
    target: `${path}?${query}&X-Amz-Signature=${made}`,
    headers: { ...headers, ...options.unsigned },
    body: bytesOf(request.body),
  };
}

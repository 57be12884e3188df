// A client that signs, so that tests can send what a real one never would, with a signature that holds.
import { createHash, createHmac } from "node:crypto";
import { createVerifier, fieldsOf, parseTarget, type Verified, type Verifier } from "../index.ts";
import { formatTimestamp } from "../dates.ts";
import { canonicalRequest, stringToSign } from "../signature/canonical.ts";
import { deriveSigningKey } from "../signature/signing-key.ts";

export const ACCESS_KEY = "AKIDMINE";
export const SECRET = "a-secret/with+odd=characters";
export const REGION = "eu-test-1";
export const NOW_MS = Date.UTC(2026, 10, 21, 9, 30);
export const EMPTY_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

export type Header = readonly [name: string, value: string];

export interface Plan {
  readonly method?: string;
  readonly target?: string;
  /** Sent and signed, besides host, x-amz-date and x-amz-content-sha256. */
  readonly headers?: readonly Header[];
  /** Sent, not signed. */
  readonly unsigned?: readonly Header[];
  readonly payload?: string;
  readonly signedMs?: number;
  readonly accessKey?: string;
  readonly secret?: string;
  /** Of the scope. */
  readonly date?: string;
  /** Instead of the timestamp, in x-amz-date. */
  readonly dateSent?: string;
  readonly region?: string;
  readonly service?: string;
  /** Instead of all signed ones, as they are written. */
  readonly signedHeaders?: string;
  /** What is done to the finished Authorization header. */
  readonly authorization?: (value: string) => string;
}

export interface Request {
  readonly method: string;
  readonly target: string;
  readonly headers: readonly Header[];
}

export function scopeOf(plan: Plan): string {
  const timestamp = formatTimestamp(plan.signedMs ?? NOW_MS);
  return `${plan.date ?? timestamp.slice(0, 8)}/${plan.region ?? REGION}/${plan.service ?? "s3"}/aws4_request`;
}

export function signed(plan: Plan): Request {
  const { method = "GET", target = "/bucket/key", payload = EMPTY_SHA256 } = plan;
  const timestamp = formatTimestamp(plan.signedMs ?? NOW_MS);
  const headers: Header[] = [
    ["host", "s3.example.test"],
    ["x-amz-date", plan.dateSent ?? timestamp],
    ["x-amz-content-sha256", payload],
    ...(plan.headers ?? []),
  ];
  const names = plan.signedHeaders ?? [...new Set(headers.map(([name]) => name))].toSorted().join(";");
  const signature = sign(plan, { method, target, headers, names, payload });
  const credential = `${plan.accessKey ?? ACCESS_KEY}/${scopeOf(plan)}`;
  const value = `AWS4-HMAC-SHA256 Credential=${credential}, SignedHeaders=${names}, Signature=${signature}`;
  const authorization: Header = ["authorization", plan.authorization?.(value) ?? value];
  return { method, target, headers: [...headers, ...(plan.unsigned ?? []), authorization] };
}

/** `query` is added to the parameters of the signature before signing. */
export function presigned(plan: Plan & { readonly expires?: string; readonly query?: string; readonly drop?: string }): Request {
  const { method = "GET", target = "/bucket/key", payload = "UNSIGNED-PAYLOAD" } = plan;
  const timestamp = formatTimestamp(plan.signedMs ?? NOW_MS);
  const headers: Header[] = [["host", "s3.example.test"], ...(plan.headers ?? [])];
  const names = plan.signedHeaders ?? [...new Set(headers.map(([name]) => name))].toSorted().join(";");
  const parameters = [
    "X-Amz-Algorithm=AWS4-HMAC-SHA256",
    `X-Amz-Credential=${encodeURIComponent(`${plan.accessKey ?? ACCESS_KEY}/${scopeOf(plan)}`)}`,
    `X-Amz-Date=${timestamp}`,
    `X-Amz-Expires=${plan.expires ?? "60"}`,
    `X-Amz-SignedHeaders=${encodeURIComponent(names)}`,
    ...(plan.query === undefined ? [] : [plan.query]),
  ].filter((parameter) => plan.drop === undefined || !parameter.startsWith(`${plan.drop}=`));
  const unsignedTarget = `${target}?${parameters.join("&")}`;
  const signature = sign(plan, { method, target: unsignedTarget, headers, names, payload });
  return { method, target: `${unsignedTarget}&X-Amz-Signature=${signature}`, headers: [...headers, ...(plan.unsigned ?? [])] };
}

function sign(plan: Plan, request: { method: string; target: string; headers: readonly Header[]; names: string; payload: string }): string {
  const canonical = canonicalRequest({
    method: request.method,
    target: parseTarget(request.target, undefined),
    headers: fieldsOf(request.headers),
    signedHeaders: request.names.split(";"),
    payload: request.payload,
  });
  const text = stringToSign(canonical, formatTimestamp(plan.signedMs ?? NOW_MS), scopeOf(plan));
  const date = plan.date ?? formatTimestamp(plan.signedMs ?? NOW_MS).slice(0, 8);
  return createHmac("sha256", deriveSigningKey(plan.secret ?? SECRET, date, plan.region ?? REGION))
    .update(text)
    .digest("hex");
}

export const verifier: Verifier = createVerifier({
  region: REGION,
  credential: (accessKey) => {
    if (accessKey === ACCESS_KEY) return { secret: SECRET, tenant: "mine" };
    return accessKey === "AKIDOTHER" ? { secret: "another secret", tenant: "other" } : undefined;
  },
});

export function verify(request: Request, nowMs = NOW_MS): Verified {
  return verifier.verify({ ...request, headers: fieldsOf(request.headers) }, parseTarget(request.target, undefined), nowMs);
}

export function sha256Hex(bytes: Uint8Array | string): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** The signature of a request that was signed with `signed`. */
export function signatureOf({ headers }: Request): string {
  return /Signature=([0-9a-f]{64})/.exec(headers.find(([name]) => name === "authorization")?.[1] ?? "")?.[1] ?? "";
}

/** Signed chunks, each with the signature that goes on from the one before. */
export interface ChunkSigner {
  chunk(bytes: Uint8Array | string): Buffer;
  /** "0;chunk-signature=..." */
  last(): Buffer;
  /** "name:value" lines and the signature behind them. */
  trailer(...lines: readonly string[]): Buffer;
}

export function chunkSigner(plan: Plan, seed: string): ChunkSigner {
  const timestamp = formatTimestamp(plan.signedMs ?? NOW_MS);
  const key = deriveSigningKey(SECRET, timestamp.slice(0, 8), REGION);
  let previous = seed;
  const next = (kind: string, tail: string): string => {
    previous = createHmac("sha256", key)
      .update(`AWS4-HMAC-SHA256-${kind}\n${timestamp}\n${scopeOf(plan)}\n${previous}\n${tail}`)
      .digest("hex");
    return previous;
  };
  const header = (bytes: Uint8Array): string =>
    `${bytes.length.toString(16)};chunk-signature=${next("PAYLOAD", `${EMPTY_SHA256}\n${sha256Hex(bytes)}`)}\r\n`;
  return {
    chunk(content) {
      const bytes = Buffer.from(content);
      return Buffer.concat([Buffer.from(header(bytes)), bytes, Buffer.from("\r\n")]);
    },
    last: () => Buffer.from(header(new Uint8Array(0))),
    trailer(...lines) {
      const signature = next("TRAILER", sha256Hex(lines.map((line) => `${line}\n`).join("")));
      return Buffer.from(`${lines.map((line) => `${line}\r\n`).join("")}x-amz-trailer-signature:${signature}\r\n\r\n`);
    },
  };
}

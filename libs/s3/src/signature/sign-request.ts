import { createHash, createHmac } from "node:crypto";
import { formatTimestamp } from "../dates.ts";
import { fieldsOf } from "../fields.ts";
import { parseTarget } from "../target.ts";
import { canonicalRequest, stringToSign } from "./canonical.ts";
import { deriveSigningKey } from "./signing-key.ts";

export interface RequestToSign {
  readonly method: string;
  /** Path and query, percent-encoded. */
  readonly target: string;
  /** As in the header `host`. */
  readonly host: string;
  readonly body: Uint8Array;
  /** Further ones that are signed and sent, with lower-case names. */
  readonly headers?: Readonly<Record<string, string>>;
}

export interface SigningKey {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly region: string;
}

/** The headers to send with a request besides host and length: signed by Signature Version 4, the whole body with it. */
export function signRequest(request: RequestToSign, key: SigningKey, nowMs: number): Readonly<Record<string, string>> {
  const timestamp = formatTimestamp(nowMs);
  const date = timestamp.slice(0, 8);
  const payload = createHash("sha256").update(request.body).digest("hex");
  const sent = { ...request.headers, "x-amz-content-sha256": payload, "x-amz-date": timestamp };
  const headers = fieldsOf([["host", request.host], ...Object.entries(sent)]);
  const signedHeaders = headers.entries.map(([name]) => name).sort();
  const target = parseTarget(request.target, undefined);
  const canonical = canonicalRequest({ method: request.method, target, headers, signedHeaders, payload });
  const scope = `${date}/${key.region}/s3/aws4_request`;
  const signingKey = deriveSigningKey(key.secretAccessKey, date, key.region);
  const signature = createHmac("sha256", signingKey)
    .update(stringToSign(canonical, timestamp, scope))
    .digest("hex");
  const credential = `${key.accessKeyId}/${scope}`;
  const authorization = `AWS4-HMAC-SHA256 Credential=${credential}, SignedHeaders=${signedHeaders.join(";")}, Signature=${signature}`;
  return { ...sent, authorization };
}

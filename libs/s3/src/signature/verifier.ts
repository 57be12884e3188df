// The one verifier of every request, whatever its route: header or presigned, default deny.
import { createHmac, timingSafeEqual } from "node:crypto";
import { CHECKSUM_ALGORITHMS, checksumHeader, checksumStream } from "../body/digests.ts";
import { isGuarded } from "../api.ts";
import { encodeBase64 } from "../encoding.ts";
import { withoutCustomerKeys } from "../encryption.ts";
import { S3Error } from "../errors.ts";
import { fieldsOf, type Fields } from "../fields.ts";
import { CLOCK_SKEW_MS_MAX } from "../limits.ts";
import type { Target } from "../target.ts";
import {
  hasSignature,
  malformed,
  ONE_MECHANISM,
  PRESIGN_PARAMETERS,
  readSignedFields,
  readSignedForm,
  type SignedFields,
  type SignedForm,
} from "./authorization.ts";
import { canonicalRequest, stringToSign } from "./canonical.ts";
import { readPayload, readUnsignedPayload, type Payload } from "./payload.ts";
import { signingKeys } from "./signing-key.ts";

export interface Credential {
  readonly secret: string;
  readonly tenant: string;
}

export interface VerifierOptions {
  readonly region: string;
  /** Undefined: no such access key. */
  readonly credential: (accessKey: string) => Credential | undefined;
}

/** What is read of a request to verify it. */
export interface SignedRequest {
  readonly method: string;
  /** Names in lower case. */
  readonly headers: Fields;
}

/** What a request says, signed or not. */
export interface Received {
  /** How the body is signed: for `checkedBody`. */
  readonly payload: Payload;
  /** All headers; of a presigned request also its x-amz-* parameters that stand for headers. Use these, not the request's. */
  readonly headers: Fields;
}

export interface Verified extends Received {
  readonly accessKey: string;
  readonly tenant: string;
  readonly via: "header" | "query";
}

/** A request that no key signed: whether it is allowed is `authorize`'s to say. */
export interface Unsigned extends Received {
  readonly via: "none";
}

export interface Verifier {
  /** Reads no byte of the body. Throws S3Error unless the owner of a known secret signed this request. */
  verify(request: SignedRequest, target: Target, nowMs: number): Verified;
  /** Of a form, whose policy is what was signed; undefined: it has neither a signature nor a policy. Its expiry is `checkForm`'s to check. */
  verifyForm(headers: Fields, target: Target, fields: Fields, nowMs: number): VerifiedForm | undefined;
}

export interface VerifiedForm {
  readonly tenant: string;
  /** As it was sent, in base64. */
  readonly policy: string;
}

/**
 * Undefined: it has something of a signature, and must be verified. InvalidArgument for a body that says that its chunks are signed.
 */
export function unsignedRequest(headers: Fields, target: Target): Unsigned | undefined {
  if (hasSignature(headers, target.query)) return undefined;
  return { via: "none", payload: readUnsignedPayload(headers.one("x-amz-content-sha256") ?? "UNSIGNED-PAYLOAD"), headers };
}

export function createVerifier(options: VerifierOptions): Verifier {
  const keys = signingKeys();
  const keyOf = ({ accessKey, date, region }: SignedFields | SignedForm): { readonly credential: Credential; readonly key: Uint8Array } => {
    const credential = options.credential(accessKey);
    if (credential === undefined) throw new S3Error("InvalidAccessKeyId", undefined, { elements: { AWSAccessKeyId: accessKey } });
    return { credential, key: keys.get({ accessKey, secret: credential.secret, date, region }) };
  };
  return {
    verifyForm(headers, target, fields, nowMs) {
      if (hasSignature(headers, target.query)) throw new S3Error("InvalidArgument", ONE_MECHANISM);
      const signed = readSignedForm(fields);
      if (signed === undefined) return undefined;
      checkScope(signed, options.region);
      if (signed.signedMs - nowMs > CLOCK_SKEW_MS_MAX) throw new S3Error("AccessDenied", "Request is not valid yet");
      const { credential, key } = keyOf(signed);
      const expected = createHmac("sha256", key).update(signed.policy).digest();
      if (!timingSafeEqual(expected, Buffer.from(signed.signature, "hex"))) throw new S3Error("SignatureDoesNotMatch");
      return { tenant: credential.tenant, policy: signed.policy };
    },
    verify({ method, headers }, target, nowMs) {
      const signed = readSignedFields(headers, target.query);
      checkScope(signed, options.region);
      checkSignedHeaders(signed, headers);
      const word = payloadWord(signed, headers, target.query);
      checkTime(signed, nowMs);
      const { credential, key } = keyOf(signed);
      checkSignature(method, target, headers, signed, word, key);
      const payload = readPayload(word, signed, key);
      return {
        accessKey: signed.accessKey,
        tenant: credential.tenant,
        via: signed.via,
        payload,
        headers: effective(headers, target, signed),
      };
    },
  };
}

function checkScope(signed: SignedFields | SignedForm, region: string): void {
  if (signed.region !== region) {
    throw malformed(signed.via, `The region '${signed.region}' is wrong; expecting '${region}'.`, { Region: region });
  }
  // AssumeRole and the like: a client that asks for temporary credentials learns that there are none, not that its scope is wrong.
  if (signed.service === "sts") throw new S3Error("NotImplemented", "There is no STS here: use an access key of the server itself.");
  if (signed.service !== "s3") throw malformed(signed.via, `The service '${signed.service}' is wrong; expecting 's3'.`);
  if (signed.date !== signed.timestamp.slice(0, 8)) throw malformed(signed.via, "The date of the credential is not that of the request.");
}

/**
 * Host and every x-amz-* header of the API must be signed: an unsigned one could have been added on the way. Others have no meaning: proxies add
 * theirs, such as CloudFront's x-amz-cf-id.
 */
function checkSignedHeaders(signed: SignedFields, headers: Fields): void {
  const names = new Set(signed.signedHeaders);
  const unsigned = new Set<string>(names.has("host") ? [] : ["host"]);
  for (const [name] of headers.entries) if (isGuarded(name) && !names.has(name)) unsigned.add(name);
  if (unsigned.size > 0) {
    const message = "There were headers present in the request which were not signed";
    throw new S3Error("AccessDenied", message, { elements: { HeadersNotSigned: [...unsigned].join(", ") } });
  }
  const missing = signed.signedHeaders.filter((name) => !headers.has(name));
  if (missing.length > 0) throw new S3Error("SignatureDoesNotMatch", `Signed but not sent: ${missing.join(", ")}`);
}

/** The word that stands for the body in the canonical request. */
function payloadWord(signed: SignedFields, headers: Fields, query: Fields): string {
  const word = headers.one("x-amz-content-sha256");
  if (signed.via === "header") {
    if (word === undefined) throw new S3Error("InvalidRequest", "Missing required header for this request: x-amz-content-sha256");
    return word;
  }
  const parameters = query.entries.filter(([name]) => name.toLowerCase() === "x-amz-content-sha256").map(([, value]) => value);
  const words = new Set([...parameters, ...(word === undefined ? [] : [word])]);
  if (words.size > 1) throw malformed("query", "The request has two values of x-amz-content-sha256.");
  return [...words][0] ?? "UNSIGNED-PAYLOAD";
}

function checkTime(signed: SignedFields, nowMs: number): void {
  const server = (): { readonly ServerTime: string } => ({ ServerTime: new Date(nowMs).toISOString() });
  if (signed.expiresSeconds === undefined) {
    if (Math.abs(nowMs - signed.signedMs) <= CLOCK_SKEW_MS_MAX) return;
    const elements = { RequestTime: signed.timestamp, ...server(), MaxAllowedSkewMilliseconds: String(CLOCK_SKEW_MS_MAX) };
    throw new S3Error("RequestTimeTooSkewed", undefined, { elements });
  }
  const expiresMs = signed.signedMs + signed.expiresSeconds * 1000;
  if (signed.signedMs - nowMs > CLOCK_SKEW_MS_MAX) throw new S3Error("AccessDenied", "Request is not valid yet", { elements: server() });
  if (nowMs <= expiresMs) return;
  const elements = { "X-Amz-Expires": String(signed.expiresSeconds), Expires: new Date(expiresMs).toISOString(), ...server() };
  throw new S3Error("AccessDenied", "Request has expired", { elements });
}

function checkSignature(method: string, target: Target, headers: Fields, signed: SignedFields, payload: string, key: Uint8Array): void {
  const canonical = canonicalRequest({ method, target, headers, signedHeaders: signed.signedHeaders, payload });
  const text = stringToSign(canonical, signed.timestamp, `${signed.date}/${signed.region}/s3/aws4_request`);
  const expected = createHmac("sha256", key).update(text).digest();
  if (timingSafeEqual(expected, Buffer.from(signed.signature, "hex"))) return;
  // What we hashed, but for keys of customers, is no secret, and the fastest way to find a client's mistake.
  const elements = { AWSAccessKeyId: signed.accessKey, StringToSign: text, CanonicalRequest: withoutCustomerKeys(canonical) };
  throw new S3Error("SignatureDoesNotMatch", undefined, { elements });
}

/**
 * A presigned URL has headers of its maker (metadata, checksum) in its query. Makers that have no body yet put in the checksum of the empty
 * one, which says nothing about the body to come; S3 lets such uploads through, and so do we. Any other checksum in a URL holds.
 */
function effective(headers: Fields, target: Target, signed: SignedFields): Fields {
  if (signed.via === "header") return headers;
  const hoisted = target.query.entries
    .map(([name, value]) => [name.toLowerCase(), value] as const)
    .filter(([name, value]) => name.startsWith("x-amz-") && !PRESIGN_PARAMETERS.has(name) && EMPTY_CHECKSUMS.get(name) !== value)
    .filter(([name]) => name !== "x-amz-sdk-checksum-algorithm");
  return hoisted.length === 0 ? headers : fieldsOf([...headers.entries, ...hoisted]);
}

const EMPTY_CHECKSUMS: ReadonlyMap<string, string> = new Map(
  CHECKSUM_ALGORITHMS.map((algorithm) => [checksumHeader(algorithm), encodeBase64(checksumStream(algorithm).digest())]),
);

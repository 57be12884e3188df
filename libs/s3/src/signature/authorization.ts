// What a request says of who signed it: in the Authorization header, or in the query of a presigned URL. Never both, never neither.
import { formatTimestamp, parseHttpDate, parseTimestamp } from "../dates.ts";
import { S3Error, type S3ErrorCode } from "../errors.ts";
import type { Fields } from "../fields.ts";
import { AUTHORIZATION_CHARS_MAX, PRESIGNED_SECONDS_MAX, SIGNED_HEADERS_MAX } from "../limits.ts";

export interface SignedFields {
  readonly via: "header" | "query";
  readonly accessKey: string;
  /** Of the credential scope, "20130524". */
  readonly date: string;
  readonly region: string;
  readonly service: string;
  readonly signedHeaders: readonly string[];
  /** 64 hex digits in lower case. */
  readonly signature: string;
  /** "20130524T000000Z" */
  readonly timestamp: string;
  readonly signedMs: number;
  /** Presigned requests only. */
  readonly expiresSeconds: number | undefined;
}

/** Where a signature is. */
export type SignedVia = SignedFields["via"] | "form";

export const ALGORITHM = "AWS4-HMAC-SHA256";
/** The parameters of a presigned request that are about the signature and nothing else. */
export const PRESIGN_PARAMETERS: ReadonlySet<string> = new Set([
  "x-amz-algorithm",
  "x-amz-content-sha256",
  "x-amz-credential",
  "x-amz-date",
  "x-amz-expires",
  "x-amz-security-token",
  "x-amz-signature",
  "x-amz-signedheaders",
]);
export const ONE_MECHANISM =
  "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, or the Authorization header, should be specified.";
const VERSION_2 =
  `The authorization mechanism you have provided is not supported. Please use ${ALGORITHM} (signature version 4): ` +
  "boto3 with Config(signature_version=s3v4), awscli after aws configure set default.s3.signature_version s3v4, s3cmd without --signature-v2.";

/** Any field of any signature, old or broken ones too. */
export function hasSignature(headers: Fields, query: Fields): boolean {
  const isOfSignature = (name: string): boolean => /^x-amz-(?:algorithm|credential|signature|signedheaders|security-token)$/i.test(name);
  if (headers.has("authorization") || headers.has("x-amz-security-token")) return true;
  return query.has("AWSAccessKeyId") || query.has("Signature") || query.entries.some(([name]) => isOfSignature(name));
}

export function readSignedFields(headers: Fields, query: Fields): SignedFields {
  const authorizations = headers.all("authorization");
  const hasQuery = query.entries.some(([name]) => /^x-amz-(algorithm|credential|signature)$/i.test(name));
  const hasVersion2 = query.has("AWSAccessKeyId") || query.has("Signature");
  const mechanisms = authorizations.length + (hasQuery ? 1 : 0) + (hasVersion2 ? 1 : 0);
  if (mechanisms > 1) throw new S3Error("InvalidArgument", ONE_MECHANISM);
  if (headers.has("x-amz-security-token") || query.entries.some(([name]) => name.toLowerCase() === "x-amz-security-token")) {
    throw new S3Error("InvalidToken");
  }
  if (hasVersion2) throw new S3Error("InvalidRequest", VERSION_2);
  if (hasQuery) return fromQuery(query);
  if (authorizations[0] === undefined) throw new S3Error("AccessDenied", "Anonymous access is not allowed.");
  return fromHeader(authorizations[0], headers);
}

function fromHeader(authorization: string, headers: Fields): SignedFields {
  if (/^AWS /i.test(authorization)) throw new S3Error("InvalidRequest", VERSION_2);
  if (authorization.length > AUTHORIZATION_CHARS_MAX) throw malformed("header", "The authorization header is too long.");
  const match = /^AWS4-HMAC-SHA256 +([^ ].*)$/.exec(authorization);
  if (match === null) throw new S3Error("InvalidRequest", VERSION_2);
  const fields = new Map<string, string>();
  for (const part of match[1]!.split(",")) {
    const [, name, value] = /^ *(Credential|SignedHeaders|Signature)=([^ ]+) *$/.exec(part) ?? [];
    if (name === undefined || value === undefined || fields.has(name)) throw malformed("header", "The authorization header is malformed.");
    fields.set(name, value);
  }
  const [credential, signedHeaders, signature] = [fields.get("Credential"), fields.get("SignedHeaders"), fields.get("Signature")];
  if (credential === undefined || signedHeaders === undefined || signature === undefined) {
    throw malformed("header", "The authorization header needs Credential, SignedHeaders and Signature.");
  }
  return {
    via: "header",
    ...readCredential("header", credential),
    signedHeaders: readSignedHeaders("header", signedHeaders),
    signature: readSignature(signature),
    ...readDate(headers),
    expiresSeconds: undefined,
  };
}

function fromQuery(query: Fields): SignedFields {
  const one = (name: string): string => {
    const values = query.all(name);
    if (values.length !== 1 || values[0] === "") throw malformed("query", `A presigned request needs ${name} exactly once.`);
    return values[0]!;
  };
  if (one("X-Amz-Algorithm") !== ALGORITHM) throw malformed("query", `X-Amz-Algorithm only supports "${ALGORITHM}".`);
  const timestamp = one("X-Amz-Date");
  const signedMs = parseTimestamp(timestamp);
  if (signedMs === undefined) throw malformed("query", "X-Amz-Date must be in the ISO8601 long format \"yyyyMMdd'T'HHmmss'Z'\".");
  const expires = one("X-Amz-Expires");
  if (!/^\d{1,10}$/.test(expires)) throw malformed("query", "X-Amz-Expires must be a positive number.");
  const expiresSeconds = Number(expires);
  if (expiresSeconds < 1 || expiresSeconds > PRESIGNED_SECONDS_MAX) {
    throw malformed("query", `X-Amz-Expires must be between 1 and ${PRESIGNED_SECONDS_MAX} seconds.`);
  }
  return {
    via: "query",
    ...readCredential("query", one("X-Amz-Credential")),
    signedHeaders: readSignedHeaders("query", one("X-Amz-SignedHeaders")),
    signature: readSignature(one("X-Amz-Signature")),
    timestamp,
    signedMs,
    expiresSeconds,
  };
}

const MALFORMED = {
  header: "AuthorizationHeaderMalformed",
  query: "AuthorizationQueryParametersError",
  form: "InvalidArgument",
} as const satisfies Record<SignedVia, S3ErrorCode>;

export function malformed(via: SignedVia, message: string, elements?: Readonly<Record<string, string>>): S3Error {
  const code = MALFORMED[via];
  return new S3Error(code, message, elements === undefined ? {} : { elements });
}

function readCredential(via: SignedVia, text: string): Pick<SignedFields, "accessKey" | "date" | "region" | "service"> {
  const [accessKey = "", date = "", region = "", service = "", end, ...rest] = text.split("/");
  if (accessKey === "" || !/^\d{8}$/.test(date) || end !== "aws4_request" || rest.length > 0) {
    throw malformed(via, 'The credential must be of the form "<access key>/YYYYMMDD/<region>/s3/aws4_request".');
  }
  return { accessKey, date, region, service };
}

function readSignedHeaders(via: SignedFields["via"], text: string): string[] {
  const names = text.split(";");
  const isSorted = names.every((name, i) => i === 0 || names[i - 1]! < name);
  const isWellFormed = names.every((name) => /^[a-z0-9!#$%&'*+\-.^_`|~]+$/.test(name));
  if (names.length > SIGNED_HEADERS_MAX || !isSorted || !isWellFormed) {
    throw malformed(via, "SignedHeaders must be lower-case names, sorted, each once.");
  }
  return names;
}

function readSignature(text: string): string {
  if (!/^[0-9a-f]{64}$/.test(text)) throw new S3Error("SignatureDoesNotMatch");
  return text;
}

export type SignedForm = Pick<SignedFields, "accessKey" | "date" | "region" | "service" | "signature" | "timestamp" | "signedMs"> & {
  readonly via: "form";
  /** What is signed: the policy as it was sent. */
  readonly policy: string;
};

const FORM_SIGNATURE = ["policy", "x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-signature"] as const;
const FORM_VERSION_2 = ["awsaccesskeyid", "signature"] as const;

/** Undefined: no field is of a signature, and there is no policy. */
export function readSignedForm(fields: Fields): SignedForm | undefined {
  if (fields.has("x-amz-security-token")) throw new S3Error("InvalidToken");
  if (FORM_VERSION_2.some((name) => fields.has(name))) throw new S3Error("InvalidRequest", VERSION_2);
  if (!FORM_SIGNATURE.some((name) => fields.has(name))) return undefined;
  const one = (name: (typeof FORM_SIGNATURE)[number]): string => {
    const value = fields.one(name);
    if (value === undefined || value === "") throw malformed("form", `Bucket POST must contain a field named '${name}'.`);
    return value;
  };
  const policy = one("policy");
  if (one("x-amz-algorithm") !== ALGORITHM) throw malformed("form", `x-amz-algorithm only supports "${ALGORITHM}".`);
  const timestamp = one("x-amz-date");
  const signedMs = parseTimestamp(timestamp);
  if (signedMs === undefined) throw malformed("form", "x-amz-date must be in the ISO8601 long format \"yyyyMMdd'T'HHmmss'Z'\".");
  const credential = readCredential("form", one("x-amz-credential"));
  return { via: "form", ...credential, policy, timestamp, signedMs, signature: readSignature(one("x-amz-signature")) };
}

/** x-amz-date, else Date; each may also be in the form of HTTP. */
function readDate(headers: Fields): Pick<SignedFields, "timestamp" | "signedMs"> {
  const text = headers.one("x-amz-date") ?? headers.one("date");
  const basicMs = text === undefined ? undefined : parseTimestamp(text);
  if (basicMs !== undefined) return { timestamp: text!, signedMs: basicMs };
  const httpMs = text === undefined ? undefined : parseHttpDate(text);
  if (httpMs === undefined) throw new S3Error("AccessDenied", "AWS authentication requires a valid Date or x-amz-date header.");
  return { timestamp: formatTimestamp(httpMs), signedMs: httpMs };
}

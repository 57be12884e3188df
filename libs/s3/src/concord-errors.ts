// The one table from our closed list of errors to S3's. An unknown outcome is a 5xx, so that clients repeat it; S3's writes are idempotent.
import { ConcordError, ERRORS, toConcordError, type ErrorCode } from "@concord/runtime";
import { S3Error, type S3ErrorCode } from "./errors.ts";

export const S3_CODES = {
  BUCKET_UNKNOWN: "NoSuchBucket",
  BUCKET_EXISTS: "BucketAlreadyExists",
  BUCKET_NOT_EMPTY: "BucketNotEmpty",
  OBJECT_UNKNOWN: "NoSuchKey",
  UPLOAD_UNKNOWN: "NoSuchUpload",
  UPLOAD_STATE: "OperationAborted",
  PART_INVALID: "InvalidPart",
  PART_ORDER: "InvalidPartOrder",
  PART_TOO_SMALL: "EntityTooSmall",
  PRECONDITION_FAILED: "PreconditionFailed",
  NOT_MODIFIED: "NotModified",
  RANGE_UNSATISFIABLE: "InvalidRange",
  WRITE_CONFLICT: "ConditionalRequestConflict",
  MALFORMED_REQUEST: "InvalidRequest",
  LIMIT_EXCEEDED: "InvalidRequest",
  PAGE_TOKEN_INVALID: "InvalidArgument",
  UNIMPLEMENTED: "NotImplemented",
  UNAUTHENTICATED: "AccessDenied",
  PERMISSION_DENIED: "AccessDenied",
  STORAGE_FULL: "StorageFull",
  OVERLOADED: "SlowDown",
  CORRUPT_DATA: "InternalError",
} as const satisfies Partial<Record<ErrorCode, S3ErrorCode>>;

/** Codes whose message was written for the client; the others' may tell of our inside. */
function ownMessage(error: ConcordError): string | undefined {
  const isOfLock = error.metadata["field"] === "lock";
  return error.kind === "rejected" && (isOfLock || !SAID_BY_S3.has(error.code)) ? error.message : undefined;
}

/** S3 clients know these sentences. */
const SAID_BY_S3: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  "BUCKET_UNKNOWN",
  "OBJECT_UNKNOWN",
  "UPLOAD_UNKNOWN",
  "PRECONDITION_FAILED",
  "UNAUTHENTICATED",
  "PERMISSION_DENIED",
]);

/** Where S3 has a code of its own for what our metadata names. */
const S3_CODES_BY_FIELD: Readonly<Record<string, S3ErrorCode>> = {
  "BUCKET_EXISTS own": "BucketAlreadyOwnedByYou",
  "MALFORMED_REQUEST bucket": "InvalidBucketName",
  "MALFORMED_REQUEST bucket-state": "InvalidBucketState",
  "MALFORMED_REQUEST kmsKey": "KMS.NotFoundException",
  "MALFORMED_REQUEST lock": "InvalidArgument",
  "MALFORMED_REQUEST tag": "InvalidTag",
  "MALFORMED_REQUEST version": "InvalidArgument",
  "OBJECT_UNKNOWN version": "NoSuchVersion",
  "OBJECT_UNKNOWN marker": "MethodNotAllowed",
  "LIMIT_EXCEEDED key": "KeyTooLongError",
  "LIMIT_EXCEEDED metadata": "MetadataTooLarge",
  "LIMIT_EXCEEDED tags": "BadRequest",
  "LIMIT_EXCEEDED body": "EntityTooLarge",
  "LIMIT_EXCEEDED buckets": "TooManyBuckets",
};

function s3Code(error: ConcordError): S3ErrorCode {
  const field = `${error.code} ${error.metadata["field"] ?? error.metadata["limit"] ?? ""}`;
  if (Object.hasOwn(S3_CODES_BY_FIELD, field)) return S3_CODES_BY_FIELD[field]!;
  return Object.hasOwn(S3_CODES, error.code) ? S3_CODES[error.code as keyof typeof S3_CODES] : fallback(error);
}

/** The client's error for anything thrown. Never a stack, a cause, or the message of an unexpected error. */
export function toS3Error(thrown: unknown): S3Error {
  if (thrown instanceof S3Error) return thrown;
  const error = toConcordError(thrown);
  const code = s3Code(error);
  const retryAfterSeconds = error.retryAfterMs === undefined ? {} : { retryAfterSeconds: Math.ceil(error.retryAfterMs / 1000) };
  return new S3Error(code, ownMessage(error), { cause: error, ...retryAfterSeconds });
}

/** Retryable ones are 503; the rest is 500, which clients repeat as well. */
function fallback(error: ConcordError): S3ErrorCode {
  const { kind, retryable } = ERRORS[error.code];
  if (kind === "rejected") return "InvalidRequest";
  return retryable ? "ServiceUnavailable" : "InternalError";
}

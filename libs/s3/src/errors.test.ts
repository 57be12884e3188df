import assert from "node:assert/strict";
import { test } from "node:test";
import { ConcordError, ERRORS, type ErrorCode } from "@concord/runtime";
import { errorXml, S3_CODES, S3_ERRORS, S3Error, toS3Error } from "./index.ts";

const statusOf = (code: ErrorCode, metadata: Record<string, string> = {}): [string, number] => {
  const error = toS3Error(new ConcordError(code, "inner words", { metadata }));
  return [error.code, error.status];
};

for (const [code, metadata, s3, status] of [
  ["OBJECT_UNKNOWN", {}, "NoSuchKey", 404],
  ["BUCKET_UNKNOWN", {}, "NoSuchBucket", 404],
  ["UPLOAD_UNKNOWN", {}, "NoSuchUpload", 404],
  ["BUCKET_EXISTS", {}, "BucketAlreadyExists", 409],
  ["BUCKET_NOT_EMPTY", {}, "BucketNotEmpty", 409],
  ["PRECONDITION_FAILED", {}, "PreconditionFailed", 412],
  ["NOT_MODIFIED", {}, "NotModified", 304],
  ["RANGE_UNSATISFIABLE", {}, "InvalidRange", 416],
  ["WRITE_CONFLICT", {}, "ConditionalRequestConflict", 409],
  ["PART_INVALID", {}, "InvalidPart", 400],
  ["PART_ORDER", {}, "InvalidPartOrder", 400],
  ["PART_TOO_SMALL", {}, "EntityTooSmall", 400],
  ["UPLOAD_STATE", {}, "OperationAborted", 409],
  ["MALFORMED_REQUEST", {}, "InvalidRequest", 400],
  ["MALFORMED_REQUEST", { field: "bucket" }, "InvalidBucketName", 400],
  ["MALFORMED_REQUEST", { field: "tag" }, "InvalidTag", 400],
  ["MALFORMED_REQUEST", { field: "version" }, "InvalidArgument", 400],
  ["OBJECT_UNKNOWN", { field: "version" }, "NoSuchVersion", 404],
  ["OBJECT_UNKNOWN", { field: "marker" }, "MethodNotAllowed", 405],
  ["LIMIT_EXCEEDED", { limit: "key" }, "KeyTooLongError", 400],
  ["LIMIT_EXCEEDED", { limit: "metadata" }, "MetadataTooLarge", 400],
  ["LIMIT_EXCEEDED", { limit: "tags" }, "BadRequest", 400],
  ["LIMIT_EXCEEDED", { limit: "constructor" }, "InvalidRequest", 400],
  ["STORAGE_FULL", {}, "StorageFull", 507],
  ["OVERLOADED", {}, "SlowDown", 503],
  ["DRAINING", {}, "ServiceUnavailable", 503],
  ["REPLICAS_UNAVAILABLE", {}, "ServiceUnavailable", 503],
  ["OUTCOME_UNKNOWN", {}, "ServiceUnavailable", 503],
  ["WRITE_TIMEOUT", {}, "ServiceUnavailable", 503],
  ["STORE_FAILED", {}, "ServiceUnavailable", 503],
  ["CORRUPT_DATA", {}, "InternalError", 500],
  ["INTERNAL", {}, "InternalError", 500],
] as const) {
  test(`toS3Error: ${code} ${JSON.stringify(metadata)}: ${s3} ${status}`, () => assert.deepEqual(statusOf(code, metadata), [s3, status]));
}

test("toS3Error: an unknown outcome: always a 5xx, so that the client repeats it", () => {
  for (const [code, { kind }] of Object.entries(ERRORS)) {
    if (kind === "unknown") assert.ok(statusOf(code as ErrorCode)[1] >= 500, code);
    if (kind === "rejected") assert.ok(statusOf(code as ErrorCode)[1] < 500 || code === "UNIMPLEMENTED", code);
  }
});

test("toS3Error: an unexpected error: nothing of it is sent", () => {
  for (const thrown of [new TypeError("secret at /etc/x:5"), "secret", { secret: 1 }, undefined, new ConcordError("INTERNAL", "secret")]) {
    const error = toS3Error(thrown);
    assert.deepEqual([error.code, error.message], ["InternalError", S3_ERRORS.InternalError.message]);
    assert.ok(!errorXml(error, { resource: "/", requestId: "r" }).includes("secret"));
  }
});

test("toS3Error: retryable: says when", () => {
  assert.equal(toS3Error(new ConcordError("OVERLOADED", "x", { retryAfterMs: 2500 })).retryAfterSeconds, 3);
  assert.equal(toS3Error(new ConcordError("OBJECT_UNKNOWN", "x")).retryAfterSeconds, undefined);
});

test("toS3Error: an S3Error: itself", () => {
  const error = new S3Error("BadDigest");
  assert.equal(toS3Error(error), error);
  assert.ok(Object.keys(S3_CODES).every((code) => Object.hasOwn(ERRORS, code)));
});

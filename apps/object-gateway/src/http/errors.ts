// Turns a thrown value into the client's S3 error, and says whether operators must look into it.
import { ConcordError } from "@concord/runtime";
import { formatHttpDate, S3Error, toS3Error, type Fields } from "@concord/s3";
import { quoted, type Header } from "./responses.ts";

export interface Failure {
  readonly error: S3Error;
  /** Beside the document, or instead of it. */
  readonly headers: readonly Header[];
  /** Ours: it belongs in the log as an error. */
  readonly fault: boolean;
}

/** The kit's table, but for what the request itself decides. `headers` are undefined when not even they could be read. */
export function failureOf(thrown: unknown, headers: Fields | undefined): Failure {
  const error = errorOf(thrown, headers);
  return { error, headers: headersOf(error, thrown), fault: error.status === 500 };
}

function errorOf(thrown: unknown, headers: Fields | undefined): S3Error {
  if (thrown instanceof ConcordError) {
    // The client went away or was too slow: no answer reaches it, and nothing failed here.
    if (thrown.code === "CANCELLED") return new S3Error("RequestTimeout", undefined, { cause: thrown });
    // Without a condition of the client's nothing contradicts it: the status that every SDK repeats on.
    if (thrown.code === "WRITE_CONFLICT" && !isConditional(headers))
      return new S3Error("SlowDown", undefined, { cause: thrown, retryAfterSeconds: 1 });
  }
  return toS3Error(thrown);
}

const isConditional = (headers: Fields | undefined): boolean => headers?.has("if-match") === true || headers?.has("if-none-match") === true;

function headersOf(error: S3Error, thrown: unknown): readonly Header[] {
  const { etag, modifiedMs, sizeBytes, marker } = thrown instanceof ConcordError ? thrown.metadata : {};
  const isMarkerItself = error.code === "MethodNotAllowed" && marker !== undefined && modifiedMs !== undefined;
  return [
    ...(marker === undefined ? [] : [["x-amz-delete-marker", "true"] as const, ["x-amz-version-id", marker] as const]),
    ...(isMarkerItself ? [["allow", "DELETE"] as const, ["last-modified", formatHttpDate(Number(modifiedMs))] as const] : []),
    ...(error.retryAfterSeconds === undefined ? [] : [["retry-after", String(error.retryAfterSeconds)] as const]),
    ...(error.code === "NotModified" && etag !== undefined ? [["etag", quoted(etag)] as const] : []),
    ...(error.code === "NotModified" && modifiedMs !== undefined ? [["last-modified", formatHttpDate(Number(modifiedMs))] as const] : []),
    ...(error.code === "InvalidRange" && sizeBytes !== undefined ? [["content-range", `bytes */${sizeBytes}`] as const] : []),
  ];
}

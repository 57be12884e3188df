// What a client is told of what went wrong, and whether it is ours to look into.
import { ConcordError } from "@concord/runtime";
import { S3Error, toS3Error, type Fields } from "@concord/s3";

export interface Failure {
  readonly error: S3Error;
  /** Ours: it belongs in the log as an error. */
  readonly fault: boolean;
}

/** The kit's table, but for one row that the request's own headers decide. */
export function failureOf(thrown: unknown, headers: Fields | undefined): Failure {
  if (thrown instanceof ConcordError && thrown.code === "WRITE_CONFLICT" && headers !== undefined && !isConditional(headers)) {
    // Without a condition of the client's nothing contradicts it: the status that every SDK repeats on.
    return { error: new S3Error("SlowDown", undefined, { cause: thrown, retryAfterSeconds: 1 }), fault: false };
  }
  const error = toS3Error(thrown);
  const isGone = thrown instanceof ConcordError && thrown.code === "CANCELLED";
  return { error, fault: error.status === 500 && !isGone };
}

const isConditional = (headers: Fields): boolean => headers.has("if-match") || headers.has("if-none-match");

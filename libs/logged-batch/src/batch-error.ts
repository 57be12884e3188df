import type { BatchOutcome, BatchWriteType } from "@concord/ports";
import { ConcordError, type Applied, type ErrorCode, type TimeId, type TimestampUs } from "@concord/runtime";

export interface BatchFailure {
  readonly id: TimeId;
  readonly timestampUs: TimestampUs;
  readonly writeType: BatchWriteType;
  /** Undefined: no log can tell. */
  readonly outcome: BatchOutcome | undefined;
  readonly applied?: Applied;
  readonly cause?: unknown;
}

/** An error of a batch: metadata tells its phase, how far it came, its id and its timestamp, which a repeat has too (LBD8). */
export function batchError(code: ErrorCode, message: string, failure: BatchFailure): ConcordError {
  const outcome: Record<string, string> = failure.outcome === undefined ? {} : { outcome: failure.outcome };
  const metadata = { writeType: failure.writeType, batchId: failure.id, timestampUs: String(failure.timestampUs), ...outcome };
  const applied = failure.applied === undefined ? {} : { applied: failure.applied };
  return new ConcordError(code, message, { metadata, cause: failure.cause, ...applied });
}

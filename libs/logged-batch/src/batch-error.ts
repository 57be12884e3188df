import type { BatchOutcome, BatchWriteType } from "@concord/ports";
import { assert, ConcordError, type Applied, type ErrorCode, type TimeId, type TimestampUs } from "@concord/runtime";

export interface BatchFailure {
  readonly id: TimeId;
  readonly timestampUs: TimestampUs;
  readonly writeType: BatchWriteType;
  /** Undefined: no log can tell. */
  readonly outcome: BatchOutcome | undefined;
  readonly applied?: Applied;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly cause?: unknown;
}

/** A log may have it, so that it is or will be applied. */
const MAY_APPLY: ReadonlySet<BatchOutcome | undefined> = new Set<BatchOutcome>(["LOG_UNKNOWN", "LOGGED_PENDING"]);

/** An error of a batch: metadata tells its phase, how far it came, its id and its timestamp, which a repeat has too (LBD8). */
export function batchError(code: ErrorCode, message: string, failure: BatchFailure): ConcordError {
  const outcome: Record<string, string> = failure.outcome === undefined ? {} : { outcome: failure.outcome };
  const metadata = {
    writeType: failure.writeType,
    batchId: failure.id,
    timestampUs: String(failure.timestampUs),
    ...outcome,
    ...failure.metadata,
  };
  const applied = failure.applied === undefined ? {} : { applied: failure.applied };
  const error = new ConcordError(code, message, { metadata, cause: failure.cause, ...applied });
  assert(failure.outcome !== "NOT_LOGGED" || error.applied === "no", "LB4: a batch that was not logged was not applied");
  assert(!MAY_APPLY.has(failure.outcome) || error.applied !== "no", "LB4: a batch that may be logged may be applied");
  return error;
}

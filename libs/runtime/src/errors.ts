/**
 * The closed list of reasons for which a Concord call fails (style rule 9). Every reason has a kind, the default answer to "was
 * anything applied?", whether repeating the same call can help, and the gRPC status it travels as. `protos` has the same list
 * as `concord.common.v1.ErrorReason`; a test of the rpc kit keeps both equal.
 *
 * kind: `rejected` = the caller must change something; `unavailable` = nothing happened, try again; `unknown` = it may have
 * happened, ask or repeat idempotently; `corrupt` = stored data failed a check and was quarantined.
 */
export type ErrorKind = "rejected" | "unavailable" | "unknown" | "corrupt";

/** Whether the failed call changed anything. Losing this fact on the way up is a defect. */
export type Applied = "no" | "yes" | "unknown";

export type GrpcStatusName =
  | "CANCELLED"
  | "UNKNOWN"
  | "INVALID_ARGUMENT"
  | "DEADLINE_EXCEEDED"
  | "NOT_FOUND"
  | "ALREADY_EXISTS"
  | "PERMISSION_DENIED"
  | "RESOURCE_EXHAUSTED"
  | "FAILED_PRECONDITION"
  | "ABORTED"
  | "UNIMPLEMENTED"
  | "INTERNAL"
  | "UNAVAILABLE"
  | "DATA_LOSS"
  | "UNAUTHENTICATED";

export interface ErrorDescription {
  readonly kind: ErrorKind;
  readonly applied: Applied;
  /** True: repeating helps, after `retryAfterMs` (sent as RetryInfo). For transactions: repeat the whole transaction. */
  readonly retryable: boolean;
  readonly status: GrpcStatusName;
}

const rejected = (status: GrpcStatusName): ErrorDescription => ({ kind: "rejected", applied: "no", retryable: false, status });
const aborted: ErrorDescription = { kind: "unavailable", applied: "no", retryable: true, status: "ABORTED" };
const unavailable: ErrorDescription = { kind: "unavailable", applied: "no", retryable: true, status: "UNAVAILABLE" };
/** Elsewhere only: no status that policies repeat at the same server. */
const elsewhere: ErrorDescription = { ...unavailable, status: "FAILED_PRECONDITION" };
const unknown = (status: GrpcStatusName): ErrorDescription => ({ kind: "unknown", applied: "unknown", retryable: true, status });

export const ERRORS = {
  // What the caller sent is wrong.
  MALFORMED_REQUEST: rejected("INVALID_ARGUMENT"),
  LIMIT_EXCEEDED: rejected("INVALID_ARGUMENT"),
  CQL_SYNTAX: rejected("INVALID_ARGUMENT"),
  CQL_UNSUPPORTED: rejected("INVALID_ARGUMENT"),
  TYPE_MISMATCH: rejected("INVALID_ARGUMENT"),
  KEY_INCOMPLETE: rejected("INVALID_ARGUMENT"),
  COLUMN_UNKNOWN: rejected("INVALID_ARGUMENT"),
  TIMESTAMP_OUT_OF_RANGE: rejected("INVALID_ARGUMENT"),
  PAGE_TOKEN_INVALID: rejected("INVALID_ARGUMENT"),
  SCHEMA_INVALID: rejected("INVALID_ARGUMENT"),
  BATCH_INVALID: rejected("INVALID_ARGUMENT"),
  TABLE_UNKNOWN: rejected("NOT_FOUND"),
  TABLE_EXISTS: rejected("ALREADY_EXISTS"),
  NOT_FOUND: rejected("NOT_FOUND"),
  SCAN_REFUSED: rejected("FAILED_PRECONDITION"),
  INDEX_ON_EXISTING_TABLE: rejected("FAILED_PRECONDITION"),
  INDEX_CROSS_GROUP: rejected("FAILED_PRECONDITION"),
  GROUP_MISMATCH: rejected("FAILED_PRECONDITION"),
  USE_TRANSACTION: rejected("FAILED_PRECONDITION"),
  USE_PLAIN_WRITE: rejected("FAILED_PRECONDITION"),
  SYSTEM_TABLE: rejected("PERMISSION_DENIED"),
  IDEMPOTENCY_MISMATCH: rejected("FAILED_PRECONDITION"),
  UNIMPLEMENTED: rejected("UNIMPLEMENTED"),
  // Who the caller is.
  UNAUTHENTICATED: rejected("UNAUTHENTICATED"),
  PERMISSION_DENIED: rejected("PERMISSION_DENIED"),
  // A transaction's life.
  TRANSACTION_UNKNOWN: { ...aborted, retryable: true },
  TRANSACTION_EXPIRED: rejected("FAILED_PRECONDITION"),
  TRANSACTION_STATE: rejected("FAILED_PRECONDITION"),
  TRANSACTION_ABORTED: aborted,
  SEQUENCE_GAP: rejected("FAILED_PRECONDITION"),
  /** What the caller made with its clock is too far from ours. */
  CLOCK_SKEW: rejected("FAILED_PRECONDITION"),
  DEADLOCK: aborted,
  LOCK_TIMEOUT: aborted,
  IDLE_TIMEOUT: aborted,
  LIFETIME_EXCEEDED: aborted,
  EPOCH_FENCED: aborted,
  NOT_MASTER: elsewhere,
  SCHEMA_BEHIND: unavailable,
  OUTCOME_UNKNOWN: unknown("UNKNOWN"),
  // The machinery.
  REPLICAS_UNAVAILABLE: unavailable,
  READ_TIMEOUT: unavailable,
  WRITE_TIMEOUT: unknown("DEADLINE_EXCEEDED"),
  BATCH_LOG_TIMEOUT: unknown("DEADLINE_EXCEEDED"),
  BATCH_TIMEOUT: unknown("DEADLINE_EXCEEDED"),
  OVERLOADED: { kind: "unavailable", applied: "no", retryable: true, status: "RESOURCE_EXHAUSTED" },
  STARTING: unavailable,
  DRAINING: unavailable,
  CONNECTION_LOST: unknown("UNAVAILABLE"),
  DEADLINE_EXCEEDED: unknown("DEADLINE_EXCEEDED"),
  CANCELLED: { kind: "unknown", applied: "unknown", retryable: false, status: "CANCELLED" },
  STORE_FAILED: { kind: "unknown", applied: "unknown", retryable: true, status: "UNAVAILABLE" },
  CORRUPT_DATA: { kind: "corrupt", applied: "no", retryable: false, status: "DATA_LOSS" },
  INTERNAL: { kind: "unknown", applied: "unknown", retryable: false, status: "INTERNAL" },
  // Objects and messages.
  BUCKET_UNKNOWN: rejected("NOT_FOUND"),
  BUCKET_EXISTS: rejected("ALREADY_EXISTS"),
  BUCKET_NOT_EMPTY: rejected("FAILED_PRECONDITION"),
  OBJECT_UNKNOWN: rejected("NOT_FOUND"),
  UPLOAD_UNKNOWN: rejected("NOT_FOUND"),
  UPLOAD_STATE: rejected("FAILED_PRECONDITION"),
  PART_INVALID: rejected("INVALID_ARGUMENT"),
  PART_ORDER: rejected("INVALID_ARGUMENT"),
  PART_TOO_SMALL: rejected("INVALID_ARGUMENT"),
  PRECONDITION_FAILED: rejected("FAILED_PRECONDITION"),
  NOT_MODIFIED: rejected("FAILED_PRECONDITION"),
  RANGE_UNSATISFIABLE: rejected("INVALID_ARGUMENT"),
  WRITE_CONFLICT: aborted,
  PIECE_EXISTS: aborted,
  PARTITION_UNKNOWN: rejected("NOT_FOUND"),
  OFFSET_OUT_OF_RANGE: rejected("FAILED_PRECONDITION"),
  PARTITION_STOPPED: unavailable,
  STORAGE_FULL: { kind: "unavailable", applied: "no", retryable: true, status: "RESOURCE_EXHAUSTED" },
  NOT_OWNER: elsewhere,
  /** Ours stands too far behind the ids that were already made with it. */
  CLOCK_UNUSABLE: unavailable,
} as const satisfies Record<string, ErrorDescription>;

export type ErrorCode = keyof typeof ERRORS;

export interface ErrorOptions {
  /** Overrides the code's default when the thrower knows better. */
  readonly applied?: Applied;
  /** Facts for the caller (table, limit, holders ...). Never secrets, never row values. */
  readonly metadata?: Readonly<Record<string, string>>;
  /** When repeating may help; retryable codes without it get RETRY_AFTER_MS_DEFAULT. */
  readonly retryAfterMs?: number;
  readonly cause?: unknown;
}

export const RETRY_AFTER_MS_DEFAULT = 20;

/** The only error that crosses a lib's border. The message says what happened and what to do. */
export class ConcordError extends Error {
  readonly code: ErrorCode;
  readonly applied: Applied;
  readonly metadata: Readonly<Record<string, string>>;
  readonly retryAfterMs: number | undefined;

  constructor(code: ErrorCode, message: string, options: ErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "ConcordError";
    this.code = code;
    this.applied = options.applied ?? ERRORS[code].applied;
    this.metadata = options.metadata ?? {};
    this.retryAfterMs = ERRORS[code].retryable ? (options.retryAfterMs ?? RETRY_AFTER_MS_DEFAULT) : undefined;
  }

  get kind(): ErrorKind {
    return ERRORS[this.code].kind;
  }
}

/** Any thrown value as a ConcordError; what we did not throw ourselves is INTERNAL and `applied: unknown`. */
export function toConcordError(thrown: unknown): ConcordError {
  if (thrown instanceof ConcordError) return thrown;
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return new ConcordError("INTERNAL", message, { cause: thrown });
}

/** Why a call failed; the same closed list as `concord.common.v1.ErrorReason`, where each is explained. */
export type ConcordErrorCode =
  | "MALFORMED_REQUEST"
  | "LIMIT_EXCEEDED"
  | "CQL_SYNTAX"
  | "CQL_UNSUPPORTED"
  | "TYPE_MISMATCH"
  | "KEY_INCOMPLETE"
  | "COLUMN_UNKNOWN"
  | "TIMESTAMP_OUT_OF_RANGE"
  | "PAGE_TOKEN_INVALID"
  | "SCHEMA_INVALID"
  | "BATCH_INVALID"
  | "TABLE_UNKNOWN"
  | "TABLE_EXISTS"
  | "NOT_FOUND"
  | "SCAN_REFUSED"
  | "INDEX_ON_EXISTING_TABLE"
  | "INDEX_CROSS_GROUP"
  | "GROUP_MISMATCH"
  | "USE_TRANSACTION"
  | "USE_PLAIN_WRITE"
  | "SYSTEM_TABLE"
  | "IDEMPOTENCY_MISMATCH"
  | "UNIMPLEMENTED"
  | "UNAUTHENTICATED"
  | "PERMISSION_DENIED"
  | "TRANSACTION_UNKNOWN"
  | "TRANSACTION_EXPIRED"
  | "TRANSACTION_STATE"
  | "TRANSACTION_ABORTED"
  | "SEQUENCE_GAP"
  | "CLOCK_SKEW"
  | "CLOCK_UNUSABLE"
  | "DEADLOCK"
  | "LOCK_TIMEOUT"
  | "IDLE_TIMEOUT"
  | "LIFETIME_EXCEEDED"
  | "EPOCH_FENCED"
  | "NOT_MASTER"
  | "NOT_OWNER"
  | "SCHEMA_BEHIND"
  | "OUTCOME_UNKNOWN"
  | "REPLICAS_UNAVAILABLE"
  | "READ_TIMEOUT"
  | "WRITE_TIMEOUT"
  | "BATCH_LOG_TIMEOUT"
  | "BATCH_TIMEOUT"
  | "OVERLOADED"
  | "STARTING"
  | "DRAINING"
  | "CONNECTION_LOST"
  | "DEADLINE_EXCEEDED"
  | "CANCELLED"
  | "STORE_FAILED"
  | "PARTITION_UNKNOWN"
  | "OFFSET_OUT_OF_RANGE"
  | "PARTITION_STOPPED"
  | "STORAGE_FULL"
  | "BUCKET_UNKNOWN"
  | "BUCKET_EXISTS"
  | "BUCKET_NOT_EMPTY"
  | "OBJECT_UNKNOWN"
  | "UPLOAD_UNKNOWN"
  | "UPLOAD_STATE"
  | "PART_INVALID"
  | "PART_ORDER"
  | "PART_TOO_SMALL"
  | "PRECONDITION_FAILED"
  | "NOT_MODIFIED"
  | "RANGE_UNSATISFIABLE"
  | "WRITE_CONFLICT"
  | "PIECE_EXISTS"
  | "CORRUPT_DATA"
  | "INTERNAL";

export interface ConcordClientErrorFields {
  readonly applied: "no" | "yes" | "unknown";
  /** Milliseconds to wait before repeating; undefined when repeating does not help. */
  readonly retryAfterMs?: number | undefined;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly cause?: unknown;
}

/** The only error this client throws of itself. What your own function throws inside `runTransaction` comes out unchanged. */
export class ConcordClientError extends Error {
  readonly code: ConcordErrorCode;
  /** Whether the failed call changed anything. */
  readonly applied: "no" | "yes" | "unknown";
  /** Repeating the call (for a transaction: the whole transaction) can help. */
  readonly retryable: boolean;
  readonly retryAfterMs: number | undefined;
  /** Facts about the failure, such as the table, the limit or the holders of a batch. */
  readonly metadata: Readonly<Record<string, string>>;

  constructor(code: ConcordErrorCode, message: string, fields: ConcordClientErrorFields) {
    super(message, fields.cause === undefined ? undefined : { cause: fields.cause });
    this.name = "ConcordClientError";
    this.code = code;
    this.applied = fields.applied;
    this.retryAfterMs = fields.retryAfterMs;
    this.retryable = fields.retryAfterMs !== undefined;
    this.metadata = fields.metadata ?? {};
  }
}

import type { Span, TimeId, TimestampUs } from "@concord/runtime";
import type { Mutation, RowKey } from "./rows.ts";

/** Rows of one batch (LBD11); each may need a delete and an insert (LBD14). */
export const BATCH_ROWS_MAX = 1000;
/** Bytes of one batch's mutations in the storage format (LBD11): an entry and an apply each fit one message. */
export const BATCH_BYTES_MAX = 1024 * 1024;

/** A batch's net image at a timestamp (LBD14): a function of nothing else, so that a repeat gives the same mutations. */
export type MutationsAt = (timestampUs: TimestampUs) => readonly Mutation[];

export interface BatchRequest {
  /** The caller's name for the batch: a repeat carries the same one (LBD8). */
  readonly id: TimeId;
  /** Undefined: drawn by the backend, once for all writes (LB1). */
  readonly timestampUs: TimestampUs | undefined;
  readonly mutationsAt: MutationsAt;
  /** True: no log, so the batch may be applied in part when this node stops in the middle (LB12). */
  readonly unlogged: boolean;
  readonly span?: Span | undefined;
}

export interface BatchResult {
  readonly id: TimeId;
  readonly timestampUs: TimestampUs;
  /** Where the batch was logged before its first row was written; empty when no log was needed (LB3, LB12). */
  readonly holders: readonly string[];
}

/** The phase in which a batch failed (LBD8): metadata `writeType`. */
export type BatchWriteType = "BATCH_LOG" | "BATCH" | "UNLOGGED_BATCH";
/** How far a batch came (LBD8): metadata `outcome`; absent where no log can tell. */
export type BatchOutcome = "NOT_LOGGED" | "LOG_UNKNOWN" | "LOGGED_PENDING" | "APPLIED";

/** A batch that is logged and not yet known to be at every replica. */
export interface PendingBatch {
  readonly id: TimeId;
  /** The node that executes it. */
  readonly coordinator: string;
  /** The coordinator's wall clock, milliseconds since the Unix epoch. */
  readonly createdMs: number;
  readonly timestampUs: TimestampUs;
  readonly rowCount: number;
}

export interface PendingBatches {
  /** Oldest first. */
  readonly batches: readonly PendingBatch[];
  /** All pending batches, those beyond the page and unreadable ones included. */
  readonly total: number;
}

/** Batches one replay looked at, by what became of them. */
export interface ReplayCount {
  readonly completed: number;
  /** Still logged: a replica lacks them. */
  readonly kept: number;
  readonly deadLettered: number;
}

/** LBD6. TABLE_DROPPED is reserved: tables cannot be dropped yet. */
export type DeadLetterReason = "UNDECODABLE" | "EXPIRED" | "TABLE_DROPPED";

/** A batch that replay could not complete: kept for an operator, never dropped (LBD6). */
export interface DeadLetter {
  readonly id: TimeId;
  readonly reason: DeadLetterReason;
  /** Wall clock, milliseconds since the Unix epoch; 0 when the letter cannot say. */
  readonly setAsideMs: number;
  /** The entry in the bytes it was stored with. */
  readonly entry: Uint8Array;
}

/**
 * Batches of rows in several partitions that take effect whole: what was logged is completed, whatever stops in between (LB1-LB12).
 * No isolation: readers may see a part of a batch that is being applied. Every call ends within the backend's own write timeout.
 */
export interface Batches {
  /**
   * Resolves when every later read at a quorum shows every write (outcome APPLIED). Refused before anything is written: BATCH_INVALID (no write, two images
   * of one row at one timestamp, several timestamps), LIMIT_EXCEEDED (BATCH_ROWS_MAX, BATCH_BYTES_MAX), OVERLOADED.
   * Errors with metadata `writeType`, `batchId` and `outcome`: REPLICAS_UNAVAILABLE (NOT_LOGGED, applied: no), BATCH_LOG_TIMEOUT
   * (LOG_UNKNOWN: repeat with the same id, LB4), BATCH_TIMEOUT (LOGGED_PENDING, where a backend waits for the rows: it will be completed,
   * do not undo it, LB6), WRITE_TIMEOUT (no log: may be applied in part).
   * A repeated id at the same node gets the first result and changes nothing; after a failure it runs again with the first timestamp.
   * IDEMPOTENCY_MISMATCH: the id came before with another payload or timestamp (LBD8).
   */
  execute(request: BatchRequest): Promise<BatchResult>;
  /** What this node keeps in its log (LBD12). `limit` is at least 1. */
  pending(limit: number): Promise<PendingBatches>;
  /** Completes pending batches now, whatever their age (LBD12); the backend does so by itself for those left behind (LB8). */
  replay(): Promise<ReplayCount>;
  /** Oldest first. `limit` is at least 1. */
  deadLetters(limit: number): Promise<readonly DeadLetter[]>;
  /**
   * Executes a dead letter with its original timestamp; answers the keys of its rows. NOT_FOUND; CORRUPT_DATA; BATCH_INVALID when it is
   * older than gc_grace and not forced: deleted rows could come back (LBD6). BATCH_TIMEOUT: it is logged again and will be completed.
   */
  redrive(id: TimeId, force: boolean): Promise<readonly RowKey[]>;
}

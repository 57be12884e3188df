export { BATCH_FORMAT_VERSION, decodeEntry, encodeEntry, type BatchEntry, type DeadLetter, type DeadLetterReason } from "./batch-entry.ts";
export type { BatchOutcome, WriteType } from "./batch-error.ts";
export { BatchExecutor, type BatchExecutorOptions, type BatchRequest } from "./batch-executor.ts";
export type { BatchLog, PendingBatch } from "./batch-log.ts";
export type { BatchLogReplica, BatchNode, BatchRing, BatchRows } from "./batch-node.ts";
export type { BatchResult, MutationsAt } from "./execute-batch.ts";
export {
  BATCH_BYTES_MAX,
  BATCH_ROWS_MAX,
  EXECUTING_BATCHES_MAX,
  GC_GRACE_MS,
  IDEMPOTENCY_ENTRIES_MAX,
  IDEMPOTENCY_WINDOW_MS,
  LIST_PAGE_DEFAULT,
  LIST_PAGE_MAX,
  LOG_CALL_ENTRIES_MAX,
  PENDING_BYTES_MAX,
  PENDING_ENTRIES_MAX,
} from "./limits.ts";
export { LOGGED_BATCH_METRICS } from "./metrics.ts";
export { localBatchLog, openBatchLog } from "./open-batch-log.ts";
export { BatchReplay, type BatchReplayOptions, type ReplayCount } from "./replay.ts";

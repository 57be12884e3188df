export {
  BATCH_FORMAT_VERSION,
  decodeEntry,
  encodeEntry,
  ENTRY_NAMESPACE as BATCH_ENTRY_NAMESPACE,
  type BatchEntry,
} from "./batch-entry.ts";
export { BatchExecutor, type BatchExecutorOptions } from "./batch-executor.ts";
export { batchError, type BatchFailure } from "./batch-error.ts";
export { BatchRuns, type BatchRunsOptions } from "./batch-runs.ts";
export type { PreparedBatch } from "./execute-batch.ts";
export type { BatchLog, ForgottenDeletions, HeldBatch } from "./batch-log.ts";
export type { BatchLogReplica, BatchLogWrite, BatchLogWritten, BatchNode, BatchRing, BatchRows, PutResult } from "./batch-node.ts";
export { DecidedRows, type DecidedRowsOptions, type LocalRows } from "./decided-rows.ts";
export {
  EXECUTING_BATCHES_MAX,
  GC_GRACE_MS,
  IDEMPOTENCY_ENTRIES_MAX,
  IDEMPOTENCY_WINDOW_MS,
  LOG_CALL_ENTRIES_MAX,
  PENDING_BYTES_MAX,
  PENDING_ENTRIES_MAX,
} from "./limits.ts";
export { LOGGED_BATCH_METRICS } from "./metrics.ts";
export { localBatchLog, openBatchLog } from "./open-batch-log.ts";
export { BatchReplay, type BatchReplayOptions } from "./replay.ts";

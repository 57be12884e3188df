export { FLUSH_FORMAT_VERSION, openFlush, type FlushedTransaction, type FlushEntry } from "./flush-entry.ts";
export type { CommitToken } from "./flush.ts";
export type { GroupContext, GroupSettings } from "./group-context.ts";
export { CachedRowShares } from "./cached-row-shares.ts";
export { IdleMarks } from "./idle-marks.ts";
export { LargeCommits } from "./large-commits.ts";
export { HELD_BYTES_MAX, STATUS_TRANSACTIONS_MAX, TICK_MS, TRANSACTION_LIMITS, type TransactionLimits } from "./limits.ts";
export { TRANSACTION_METRICS } from "./metrics.ts";
export { TransactionOperations, type NextScan, type RangeAnswer, type ReadLock } from "./operations.ts";
export { TransactionMemory, type TransactionOwner } from "./transaction-memory.ts";
export type { TableWrite } from "./pending-rows.ts";
export {
  ServingMaster,
  type OperationCall,
  type ResolvedOutcome,
  type StartAnswer,
  type StartOptions,
  type CommitOptions,
  type WritesOf,
} from "./serving-master.ts";
export { TransactionGroup, type GroupState } from "./transaction-group.ts";
export { KeyNames, type TransactionStatus } from "./transaction-status.ts";

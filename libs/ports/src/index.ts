export {
  BATCH_BYTES_MAX,
  BATCH_ROWS_MAX,
  type Batches,
  type BatchOutcome,
  type BatchRequest,
  type BatchResult,
  type BatchWriteType,
  type DeadLetter,
  type DeadLetterReason,
  type MutationsAt,
  type PendingBatch,
  type PendingBatches,
  type ReplayCount,
} from "./batches.ts";
export type {
  AdvanceRequest,
  AppendOutcome,
  AppendRequest,
  DecidedMark,
  GroupLog,
  GroupOwner,
  LogEntry,
  LogTail,
  RaiseOutcome,
} from "./group-log.ts";
export type { KeyService, WrappedKey } from "./key-service.ts";
export type { KeyRange, KeyValue, KeyValueEntry, KeyValueOperation } from "./key-value.ts";
export type {
  LogBounds,
  LogMessage,
  LogPage,
  LogSession,
  LogTopic,
  MessageHeader,
  MessageLog,
  NewMessage,
  InputEnds,
  OpenTransaction,
  OutputUse,
  TopicFault,
  PageLimits,
  Publication,
  PublishOutcome,
} from "./message-log.ts";
export { messageBytes } from "./message-log.ts";
export { SINK_MESSAGES_MAX, type MessageSink, type SinkAnswer, type SinkMessage } from "./message-sink.ts";
export {
  oidOf,
  parseOid,
  type ObjectData,
  type Oid,
  type OidRange,
  type BlobDescription,
  type BlobState,
  type BlobWriter,
  type SealedBlob,
} from "./object-data.ts";
export {
  addCounters,
  sameVersion,
  type MetadataCommit,
  type MetadataCondition,
  type MetadataOutcome,
  type MetadataRange,
  type MetadataRow,
  type MetadataWrite,
  type ObjectMetadata,
  type RowVersion,
} from "./object-metadata.ts";
export type { AtomicRows, LocalRows, LogPosition, ReadOptions, RowOptions, RowPage, RowRange, RowStore } from "./row-store.ts";
export type { CellImage, ColumnWrite, Mutation, Row, RowImage, RowKey } from "./rows.ts";
export { OUTCOME_BUCKET_MS, OUTCOMES_TABLE, type StorageBackend, type WriteMark } from "./storage-backend.ts";
export type { Checkpoints, StepRunner, StoreEffects, StoreStep } from "./store-step.ts";
export type { BackingStore, DerivedWrite, Store } from "./store.ts";
export type { SuspectKeys, SuspectRange } from "./suspect-keys.ts";
export { READ_MORE_MS_MAX, readMs, WRITE_BYTES_FREE, WRITE_MORE_MS_MAX, writeMs } from "./write-time.ts";

export {
  CELL_TYPES,
  type CellImage,
  type CellType,
  type CellValue,
  type ColumnWrite,
  type Mutation,
  type Row,
  type RowImage,
  type RowKey,
} from "./cells.ts";
export { failedCases, registerContract, expectCode, expectEqual, type ContractCase, type TestFunction } from "./contracts/contract.ts";
export {
  contentOf,
  crashableDiskContract,
  DISK_CASES,
  DISK_CRASH_CASES,
  diskContract,
  type CrashableDiskSubject,
  type DiskSubject,
} from "./contracts/disk-contract.ts";
export { GROUP_LOG_CASES, groupLogContract, type GroupLogSubject } from "./contracts/group-log-contract.ts";
export { KEY_VALUE_CASES, keyValueContract, type KeyValueSubject } from "./contracts/key-value-contract.ts";
export { MESSAGE_LOG_CASES, messageLogContract, type MessageLogSubject } from "./contracts/message-log-contract.ts";
export { OBJECT_DATA_CASES, objectDataContract, type ObjectDataSubject } from "./contracts/object-data-contract.ts";
export { OBJECT_METADATA_CASES, objectMetadataContract, type ObjectMetadataSubject } from "./contracts/object-metadata-contract.ts";
export { ROW_STORE_CASES, rowStoreContract } from "./contracts/row-store-contract.ts";
export { diskSegments, folderOf } from "./disk-path.ts";
export type { AppendOutcome, AppendRequest, GroupLog, LogEntry, LogTail, RaiseOutcome } from "./group-log.ts";
export type { KeyRange, KeyValue, KeyValueEntry, KeyValueOperation } from "./key-value.ts";
export { diskOver, MemoryDisk, type DiskCall, type DiskRun } from "./memory-disk.ts";
export { KEEP_UNSYNCED, LOSE_UNSYNCED, MemoryFiles, type CrashChooser, type UnsyncedChange } from "./memory-files.ts";
export { MemoryGroupLog } from "./memory-group-log.ts";
export { MemoryKeyValue, type KeyValueImage } from "./memory-key-value.ts";
export {
  crc32c as referenceCrc32c,
  MemoryObjectData,
  type DataOperation,
  type MemoryDataOptions,
  type Remains,
} from "./memory-object-data.ts";
export { addCounters, MemoryObjectMetadata, sameVersion, type CommitFate, type MetadataOperation } from "./memory-object-metadata.ts";
export { MemoryMessageLog, type PublishFault } from "./memory-message-log.ts";
export { MemoryRowStore } from "./memory-row-store.ts";
export type {
  LogBounds,
  LogMessage,
  LogPage,
  LogSession,
  LogTopic,
  MessageHeader,
  MessageLog,
  NewMessage,
  PageLimits,
  Publication,
  PublishOutcome,
} from "./message-log.ts";
export {
  oidOf,
  parseOid,
  type ObjectData,
  type Oid,
  type PieceDescription,
  type PieceState,
  type PieceWriter,
  type SealedPiece,
} from "./object-data.ts";
export type {
  MetadataCommit,
  MetadataCondition,
  MetadataOutcome,
  MetadataRange,
  MetadataRow,
  MetadataWrite,
  ObjectMetadata,
  RowVersion,
} from "./object-metadata.ts";
export { compareBytes, compareValues, emptyImage, imageOf, liveRow, mergeImages, newestTimestamp, sameImage } from "./row-image.ts";
export type { Condition, ConditionalOutcome, RowOptions, RowPage, RowRange, RowStore } from "./row-store.ts";
export {
  decodeImage,
  decodeMutation,
  decodeRowKey,
  encodeImage,
  encodeMutation,
  encodeOrderedValue,
  encodePartition,
  encodeRange,
  encodeRowKey,
  imageRowKey,
  mutationRowKey,
} from "./storage-format.ts";
export type { StepRunner, StoreEffects, StoreStep } from "./store-step.ts";

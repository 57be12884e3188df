export { BACKING_STORE_CASES, backingStoreContract, type BackingStoreSubject } from "./backing-store-contract.ts";
export {
  BATCH_REPLAY_CASES,
  BATCHES_CASES,
  batchesContract,
  batchReplayContract,
  type BatchesSubject,
  type LeftBatch,
  type ReplaySubject,
} from "./batches-contract.ts";
export { failedCases, registerContract, expectCode, expectEqual, type ContractCase, type TestFunction } from "./contract.ts";
export { dice } from "./dice.ts";
export {
  contentOf,
  crashableDiskContract,
  DISK_CASES,
  DISK_CRASH_CASES,
  diskContract,
  type CrashableDiskSubject,
  type DiskSubject,
} from "./disk-contract.ts";
export { GROUP_LOG_CASES, groupLogContract, type GroupLogSubject } from "./group-log-contract.ts";
export { KEY_VALUE_CASES, keyValueContract, type KeyValueSubject } from "./key-value-contract.ts";
export { MESSAGE_LOG_CASES, messageLogContract, type MessageLogSubject } from "./message-log-contract.ts";
export { OBJECT_DATA_CASES, objectDataContract, type ObjectDataSubject } from "./object-data-contract.ts";
export { OBJECT_METADATA_CASES, objectMetadataContract, type ObjectMetadataSubject } from "./object-metadata-contract.ts";
export { ROW_STORE_CASES, rowStoreContract } from "./row-store-contract.ts";
export { diskOver, MemoryDisk, type DiskCall, type DiskRun } from "./memory-disk.ts";
export { KEEP_UNSYNCED, LOSE_UNSYNCED, MemoryFiles, type CrashChooser, type UnsyncedChange } from "./memory-files.ts";
export { BackingModel, copyOfOperation, MemoryBackingStore, type LogChooser, type ModelOpening } from "./memory-backing-store.ts";
export { MemoryBatches } from "./memory-batches.ts";
export { MemoryGroupLog } from "./memory-group-log.ts";
export { MemoryKeyValue, type KeyValueImage } from "./memory-key-value.ts";
export {
  crc32c as referenceCrc32c,
  MemoryObjectData,
  type DataOperation,
  type MemoryDataOptions,
  type Remains,
} from "./memory-object-data.ts";
export { MemoryObjectMetadata, type CommitFate, type MetadataOperation } from "./memory-object-metadata.ts";
export { MemoryMessageLog, type PublishFault } from "./memory-message-log.ts";
export { MemoryRowStore } from "./memory-row-store.ts";
export { memoryStorage, MemoryStorageBackend, type MemoryStorage } from "./memory-storage-backend.ts";
export { STORAGE_BACKEND_CASES, storageBackendContract, type StorageBackendSubject } from "./storage-backend-contract.ts";
export { ScriptedListedMembership, ScriptedMembership } from "./scripted-membership.ts";

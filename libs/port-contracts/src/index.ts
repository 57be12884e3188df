export { failedCases, registerContract, expectCode, expectEqual, type ContractCase, type TestFunction } from "./contract.ts";
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

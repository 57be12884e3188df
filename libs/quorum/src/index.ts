export { AtomicRowStore, type AtomicRowStoreOptions } from "./atomic-row-store.ts";
export { chunksOf } from "./chunks.ts";
export { Forgotten, forgottenNote, readForgotten } from "./forgotten.ts";
export { gather, type Answer, type Gathered, type GatherOptions } from "./gather.ts";
export { encodedMutationsOf, mutationsOf } from "./image-mutations.ts";
export { PAGE_ROW_BYTES_MAX, RANGE_IMAGES_MAX, READ_CHUNK_KEYS_MAX, ROW_BYTES_MAX } from "./limits.ts";
export { LocalGroupRows } from "./local-group-rows.ts";
export { LocalRowReplica, type LocalRowReplicaOptions } from "./local-replica.ts";
export { mergeAnswers, mergePages, type MergedPage, type MergedRow } from "./merge-answers.ts";
export { QUORUM_METRICS } from "./metrics.ts";
export { QuorumRowStore, type QuorumRowStoreOptions } from "./quorum-row-store.ts";
export { ReadTime, type ExchangeTime } from "./read-time.ts";
export type { GroupRead, GroupReplica, GroupRows, ReplicaPage, ReplicaRange, RowReplica } from "./row-replica.ts";
export { RowSizes, rowText, type RowSizesOptions } from "./row-sizes.ts";
export { applyRowsStep, type ApplyRowsReply, type OnRow } from "./row-steps.ts";
export {
  imageOfStored,
  keyOfStored,
  openRow,
  quarantine,
  QUARANTINE_NAMESPACE,
  ROW_FORMAT_VERSION,
  ROWS_NAMESPACE,
  checkEntryRows,
  rowsOfEntry,
  sealMerged,
  storedRowKey,
  tombstoneOf,
  TOMBSTONES_NAMESPACE,
  type LogPlace,
  type StoredRow,
} from "./stored-row.ts";
export { TombstoneCollector, type TombstoneCollectorOptions } from "./tombstones.ts";

export type {
  IdHash,
  IdSource,
  MessageOrigin,
  MissingIdPolicy,
  PartitionStatistics,
  PartitionWorker,
  SnapshotOptions,
  SnapshotStore,
  InputResult,
  WindowOptions,
  WindowStatistics,
  WindowStores,
  WorkerDependencies,
  WorkerOptions,
  WorkerState,
} from "./api.ts";
export { idExtractor } from "./extract-id.ts";
export { ID_WORDS, unpackIds } from "./id-words.ts";
export { ID_BYTES_MAX, SEEN_IDS_MAX, SNAPSHOT_BLOB_IDS, SNAPSHOT_EVERY_MS_MIN, SNAPSHOTS_KEPT_MAX, SOURCE_BYTES_MAX } from "./limits.ts";
export { DEDUP_METRICS } from "./metrics.ts";
export { murmur2, partitionOfBytes, partitionOfContent, partitionOfId } from "./murmur2.ts";
export { ID_HEADER, ORIGIN_HEADER, readOrigin, REASON_HEADER, SOURCE_HEADER } from "./origin.ts";
export { createPartitionWorker } from "./partition-worker.ts";
export { SourceFigures } from "./source-figures.ts";
export type { OpenWindow, OutputIds, Window, WindowEnvironment } from "./window.ts";
export { checkWorkerOptions, windowMemoryBytes } from "./worker-options.ts";
export { ID_KEY_BYTES } from "./window-format.ts";

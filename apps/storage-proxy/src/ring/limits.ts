/** Mutations, keys and images of one call between nodes. */
export const REPLICA_ITEMS_MAX = 10_000;
/** A page of a copy ends at this size (TXR4). */
export const COPY_PAGE_BYTES_TARGET = 1024 * 1024;

/** Pause between attempts to reach peers at start, and the time budget of each. */
export const FORMATION_RETRY_MS = 100;
export const FORMATION_CALL_TIMEOUT_MS = 1000;
/** A line in the log about the peers that are waited for, at most this often. */
export const FORMATION_LOG_INTERVAL_MS = 5000;
export const COPY_CALL_TIMEOUT_MS = 10_000;

/** Between two looks how far the replicas of the groups' logs are. */
export const STATUS_INTERVAL_MS = 10_000;

/** Partitions and rows of old outcomes one purge removes; rows one step removes. */
export const PURGE_PARTITIONS_MAX = 1000;
export const PURGE_ROWS_MAX = 20_000;
export const PURGE_STEP_ROWS_MAX = 500;

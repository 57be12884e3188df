/** Mutations, keys and images of one call between nodes. */
export const REPLICA_ITEMS_MAX = 10_000;
/** A page of a copy ends at this size (TXR4). */
export const COPY_PAGE_BYTES_TARGET = 1024 * 1024;
/** A larger stored value is left out of answers between nodes, which read it part by part: a page of 1 MiB and its last value fit into a message of 4 MiB. */
export const LARGE_VALUE_BYTES = 2.5 * 1024 * 1024;
export const PART_BYTES = 1024 * 1024;

/** Pause between attempts to reach peers at start, and the time budget of each. */
export const FORMATION_RETRY_MS = 100;
export const FORMATION_CALL_TIMEOUT_MS = 1000;
/** A line in the log about the peers that are waited for, at most this often. */
export const FORMATION_LOG_INTERVAL_MS = 5000;
/** Of one call of a copy: the first time, when only its loss is to be noticed, and at most, when a page takes long on a slow disk. */
export const COPY_CALL_FIRST_MS = 1_000;
export const COPY_CALL_TIMEOUT_MS = 10_000;

/** Between two looks how far the replicas of the groups' logs are. */
export const STATUS_INTERVAL_MS = 10_000;

/** Rows of old outcomes that a purge removes in one step, some 2 ms of the event loop, and its rest after each. */
export const PURGE_STEP_ROWS_MAX = 250;
export const PURGE_PAUSE_MS = 5;
/** Peers are asked for their space once in so long, and answer within so long. */
export const PEER_SPACE_EVERY_MS = 1_000;
export const PEER_SPACE_TIMEOUT_MS = 1_000;

/** Keys of one Read. */
export const READ_KEYS_MAX = 1000;
/** Rows of a page when the caller names no size, and the largest size. */
export const PAGE_ROWS_DEFAULT = 100;
export const PAGE_ROWS_MAX = 1000;
/** Mutations of one Apply. */
export const APPLY_MUTATIONS_MAX = 10_000;
/** Bytes of all values of one row write: below the message limit between nodes, with room for key and frame. */
export const ROW_WRITE_BYTES_MAX = 1024 * 1024;
/**
 * Values in a partition or clustering key, bytes of a table's name, bytes of a key: for calls that no schema checks. Not below what the
 * schema allows an index key: a commit that is logged and can not be applied would stop its group for ever.
 */
export const KEY_VALUES_MAX = 24;
export const TABLE_NAME_BYTES_MAX = 128;
export const KEY_BYTES_MAX = 50 * 1024;
/** Index rows one scan of an intersection may find (TX28). */
export const INTERSECTION_ROWS_MAX = 10_000;
/** Statements of one CreateTables. */
export const CREATE_STATEMENTS_MAX = 64;

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

/** Pause between purges of old outcomes; partitions and rows one run removes. */
export const PURGE_INTERVAL_MS = 30_000;
export const PURGE_PARTITIONS_MAX = 1000;
export const PURGE_ROWS_MAX = 20_000;
export const PURGE_STEP_ROWS_MAX = 500;
/** Outcomes are kept this much longer than promised: clocks differ. */
export const PURGE_MARGIN_MS = 120_000;

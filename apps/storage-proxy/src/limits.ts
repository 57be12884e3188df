/** Keys of one Read. */
export const READ_KEYS_MAX = 1000;
/** Keys of one read of rows of objects, rows of a page of them, bytes after which an answer ends, rows of a commit, bytes of a partition's name and of a key. */
export const OBJECT_READ_KEYS_MAX = 32;
export const OBJECT_PAGE_ROWS_MAX = 256;
export const OBJECT_PAGE_BYTES = 2 * 1024 * 1024;
export const OBJECT_COMMIT_ROWS_MAX = 4_096;
export const OBJECT_PARTITION_BYTES_MAX = 1024;
export const OBJECT_KEY_BYTES_MAX = 16 * 1024;
/** Rows of a page when the caller names no size, and the largest size. */
export const PAGE_ROWS_DEFAULT = 100;
export const PAGE_ROWS_MAX = 1000;
/** Mutations of one Apply. */
export const APPLY_MUTATIONS_MAX = 10_000;
/** Bytes of all values of one row write: below the message limit between nodes, with room for key and frame. */
export const ROW_WRITE_BYTES_MAX = 1024 * 1024;
/**
 * Values in a partition or clustering key, bytes of a table's name, bytes of a key: for calls that no schema checks. Not below what the
 * schema allows an index key: a commit that is logged and cannot be applied would stop its group for ever.
 */
export const KEY_VALUES_MAX = 24;
export const TABLE_NAME_BYTES_MAX = 128;
export const KEY_BYTES_MAX = 50 * 1024;
/** Index rows one scan of an intersection may find (TX28). */
export const INTERSECTION_ROWS_MAX = 10_000;
/** Statements of one CreateTables. */
export const CREATE_STATEMENTS_MAX = 64;
/** Entries of a page of pending batches or dead letters when the caller names no size, and the largest size. */
export const LIST_PAGE_DEFAULT = 100;
export const LIST_PAGE_MAX = 1000;

/**
 * A client's write timestamp may be this far ahead of the server's clock. Wide, because a repeat brings the timestamp another server
 * drew, whose clock may be wrong; it is to catch mistaken units, which would win over every later write for years.
 */
export const TIMESTAMP_AHEAD_MS_MAX = 3_600_000;

/** The write clock's mark is raised this far ahead of its timestamps: one small write in half of that time, and so far a restart may stand ahead. */
export const WRITE_MARK_AHEAD_US = 1_000_000n;
/** A write clock further ahead of the machine's than any restart leaves it is reported. */
export const WRITE_CLOCK_AHEAD_SAID_MS = 5_000;
/** How often a write is repeated with a newer timestamp when other writers of the row are newer each time. */
export const WRITE_DRAWS_MAX = 4;

/** Pause between purges of old outcomes. */
export const PURGE_INTERVAL_MS = 30_000;
/** Outcomes are kept this much longer than promised: clocks differ. */
export const PURGE_MARGIN_MS = 120_000;
/** Commits of different groups one read may name. */
export const READ_AFTER_MAX = 64;
/** Values of the rows of one answer to a client: names, types and keys take the rest of a message of 4 MiB. */
export const ANSWER_ROW_BYTES_MAX = 3.5 * 1024 * 1024;

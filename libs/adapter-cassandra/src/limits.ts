/** Bytes of an unlogged or logged batch over several partitions that Cassandra takes unless its operator allows more (batch_size_fail_threshold). */
export const BATCH_BYTES_STANDARD = 50 * 1024;
/** Bytes and statements of a batch within one partition, which is one mutation. */
export const PARTITION_BATCH_BYTES_MAX = 512 * 1024;
export const BATCH_STATEMENTS_MAX = 500;
/** What Cassandra counts for a statement besides its parameters, rounded up. */
export const STATEMENT_OVERHEAD_BYTES = 160;
export const CELL_OVERHEAD_BYTES = 48;
/** Bytes of one mutation: commitlog_segment_size / 2 of a node must be above it. */
export const MUTATION_BYTES_MAX = 3 * 1024 * 1024;
/** Bytes of a partition key and of a clustering key, by Cassandra's format. */
export const KEY_BYTES_MAX = 65_535;

/** Statements of one call that are under way together. */
export const CALL_STATEMENTS_IN_FLIGHT = 64;
/** Requests on one connection; more are refused as OVERLOADED. */
export const CONNECTION_REQUESTS_MAX = 2048;
export const CONNECTIONS_PER_HOST = 1;

/** A second coordinator is asked for what may be repeated after so long at the soonest and at the latest; the largest number of such tries. */
export const SPECULATION_DELAY_MS = 150;
export const SPECULATION_DELAY_MAX_MS = 1_000;
export const SPECULATIONS_MAX = 1;

/** Rows of the first look of a range read, of any later one, and the bytes after which a page ends. */
export const RANGE_ROWS_FIRST = 64;
export const RANGE_ROWS_MAX = 1000;
export const RANGE_PAGE_BYTES = 2 * 1024 * 1024;
/** Rows one range read looks at, dead ones included; then the page ends, once it has a row. */
export const RANGE_ROWS_SCANNED_MAX = 20_000;

/** Entries of the group log in one answer of Cassandra: together below its largest message. */
export const TAIL_PAGE_ENTRIES = 8;
/** Bytes of one entry with its rows. */
export const ENTRY_BYTES_MAX = 1024 * 1024;
/** Bytes of a group's name and of an owner's. */
export const NAME_BYTES_MAX = 1024;
/** What one lightweight transaction may take: above cas_contention_timeout, so that the answer is Cassandra's. */
export const LWT_TIMEOUT_MS = 5_000;
/** One part in so many of what is left of a call's time is kept for the read that decides a lightweight transaction without an answer. */
export const DECIDING_READ_SHARE = 4;
/** Pause before a lightweight transaction or serial read is tried again. */
export const LWT_RETRY_MS = 20;

/** Lightweight transactions that wait for earlier ones of their partition, and of all partitions; above it OVERLOADED, to be repeated after so long. */
export const LANE_WAITERS_MAX = 256;
export const LANES_WAITERS_MAX = 2_048;
export const LANE_RETRY_MS = 500;

/** Keys of one read of objects' rows, rows of one page of a range, and what a commit may hold. */
export const METADATA_READ_KEYS = 32;
export const METADATA_PAGE_ROWS = 256;
export const METADATA_ROWS_MAX = 4_096;
/** What a read or a commit of objects' rows may take with all its tries. */
export const METADATA_TIMEOUT_MS = 10_000;
/** Slots of a partition, one for each process that commits to it; two processes in one slot wait for each other more often. */
export const METADATA_SLOTS = 256;
/** Partitions whose slot is remembered. */
export const METADATA_PARTITIONS_MAX = 4_096;

/** So long a node that left a request without an answer is tried after the others. */
export const SILENT_LAST_MS = 30_000;
/** A request without an answer for less time says nothing about its node. */
export const SILENT_AFTER_MS = 400;
/** Wait for a node's answer in start-up checks and schema changes. */
export const CHECK_TIMEOUT_MS = 10_000;
export const SCHEMA_TIMEOUT_MS = 30_000;
export const CONNECT_TIMEOUT_MS = 5_000;
/** A node with wrong settings is asked again after it. */
export const CHECK_AGAIN_MS = 30_000;
/** Pause between two checks of the keyspace, and before a fault that was found is looked for once more: nodes agree on a schema within seconds. */
export const KEYSPACE_CHECK_MS = 60_000;
export const KEYSPACE_SECOND_LOOK_MS = 5_000;
/** Copies of each row in all datacenters: with fewer no quorum is left when one is lost. */
export const REPLICAS_MIN = 3;
/** Nodes that are up and may have wrong settings: of three replicas one, so that each quorum has a right one. */
export const WRONG_NODES_MAX = 1;

/** Outcome partitions of one page of a purge, and deletes under way together. */
export const PURGE_PAGE_PARTITIONS = 1000;

/** A deletion is older than it before its row is purged: above what clocks are ahead (storage-proxy takes an hour) and above the longest apply. */
export const DEAD_ROW_AGE_MS = 2 * 3_600_000;
/** One pass over all rows in so long, by all processes together; pause before each process looks whether one is due. */
export const DEAD_ROWS_SLOT_MS = 6 * 3_600_000;
export const DEAD_ROWS_LOOK_MS = 600_000;
/** Rows of one page of a pass, the pause after it, purges under way together, rows of one and its reads under way; failures that end a pass. */
export const DEAD_ROWS_PAGE = 500;
export const DEAD_ROWS_PAUSE_MS = 100;
export const DEAD_ROWS_PURGES_IN_FLIGHT = 4;
export const DEAD_ROWS_BATCH = 100;
export const DEAD_ROWS_READS_IN_FLIGHT = 8;
export const DEAD_ROWS_FAILURES_MAX = 64;
/**
 * Rows of one partition that a pass purges. Each leaves a tombstone for ROWS_GC_GRACE_SECONDS, 40 000 at most: a read that meets 100 000
 * (tombstone_failure_threshold) fails, and pages end by rows, not by tombstones.
 */
export const DEAD_ROWS_PARTITION_MAX = 1_000;
/** Parts of the tokens that a pass begins with; a part that cannot be read, or has too many tombstones, is divided up to so many. */
export const TOKEN_PARTS_FIRST = 256n;
export const TOKEN_PARTS_MAX = 1n << 32n;

/** cas_contention_timeout of every node: below it takeover and a stale append meet as unknown (measured, TXC3). */
export const CAS_CONTENTION_TIMEOUT_MS_MIN = 1_000;
/** Seconds a row's tombstone is kept; above max_hint_window and the longest apply (TXC3). */
export const ROWS_GC_GRACE_SECONDS = 864_000;
/** Outcomes that came back after their purge would be purged again: their tombstones need not stay long. */
export const OUTCOMES_GC_GRACE_SECONDS = 3_600;
/** Pause between two looks whether a commit's rows are applied. */
export const APPLIED_POLL_MS = 10;
/** Groups whose mark is remembered. */
export const APPLIED_GROUPS_MAX = 4_096;

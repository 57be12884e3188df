/** Hints for one peer, by the bytes of their keys and values; what comes then is dropped, and a comparison with the peer is due (I14). */
export const HINT_BYTES_MAX = 256 * 1024 * 1024;
/** Hints that go to a peer in one call, and their bytes: the call ends with the hint that passes these. */
export const HINT_CALL_HINTS_MAX = 500;
export const HINT_CALL_MUTATIONS_TARGET = 1000;
export const HINT_CALL_BYTES_TARGET = 1024 * 1024;
/** Hints go to a peer at this rate at most: a peer that is back serves as well. */
export const HINT_BYTES_PER_MS = 16 * 1024;
/** Between two looks whether a peer is reachable, and after a call that failed. */
export const HINT_POLL_MS = 200;
/** Peers with a comparison due; a ring has two. */
export const DUE_PEERS_MAX = 16;

/** Rows and bytes of one segment of the comparison: what is read in one turn, and the unit in which it is taken up again. */
export const SEGMENT_ROWS = 1000;
export const SEGMENT_BYTES = 512 * 1024;
/** A peer that has more rows in a segment reads so many times as much before it cuts the segment. */
export const SEGMENT_SLACK = 4;
export const SEGMENT_LEAVES = 256;
/** The comparison reads at this rate at most, at either side: 8 MiB/s. */
export const REPAIR_BYTES_PER_MS = 8 * 1024;
/** After a round at least so many times as long as it took: a store of 100 GB is compared for 3.5 hours, and not again for 10. */
export const REPAIR_REST_FACTOR = 3;
/** Between two looks whether a round is due and its peer reachable, and after a failure. */
export const REPAIR_POLL_MS = 200;
/** A round's place is noted on disk every so many segments. */
export const SEGMENTS_PER_NOTE = 64;

/** How often the rows of a page are read when tombstones are dropped at a side each time; then the next round has them. */
export const EXCHANGE_TRIES_MAX = 3;

/** Rows and bytes that the collector of tombstones reads in one turn, and asks peers about in one call. */
export const COLLECT_PAGE_ROWS = 250;
export const COLLECT_PAGE_BYTES = 512 * 1024;
/** It reads at this rate at most: 8 MiB/s. */
export const COLLECT_BYTES_PER_MS = 8 * 1024;
/** Between two looks whether all peers are reachable, and after a failure. */
export const COLLECT_POLL_MS = 1000;

/** Damaged rows that wait to be healed; others are found again by the next round. */
export const HEALING_ROWS_MAX = 1000;
export const HEAL_RETRY_MS = 500;
/** Places in groups' logs that one read waits for. */
export const HEAL_POSITIONS_MAX = 64;

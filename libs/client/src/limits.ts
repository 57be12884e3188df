import type { BackoffLimits } from "@concord/runtime";

/** Time budget of a call outside transactions. */
export const CALL_TIMEOUT_MS = 5_000;
/** Time budget of runTransaction with all its tries. */
export const TRANSACTION_DEADLINE_MS = 10_000;
/** Extra time, after the deadline, to find out what became of a commit. */
export const RESOLVE_GRACE_MS = 10_000;
/** Tries of one transaction; its deadline usually ends it first. */
export const TRANSACTION_TRIES_MAX = 1000;
/** Pauses before a repeated transaction, message and question for an outcome; never below what the server asked for. */
export const TRANSACTION_BACKOFF: BackoffLimits = { initialMs: 4, maxMs: 500 };
export const MESSAGE_BACKOFF: BackoffLimits = { initialMs: 8, maxMs: 500 };
/** One try at one of several dedup-workers, beyond what it is asked to wait. */
export const WORKER_TRY_MS = 2_000;
/** Owners that a call follows one after the other without a pause. */
export const REDIRECTS_MAX = 3;
export const RESOLVE_BACKOFF: BackoffLimits = { initialMs: 4, maxMs: 256 };
/** Writes in one message of a transaction; a longer buffer is sent on before the commit. */
export const WRITES_PER_MESSAGE_MAX = 1000;
/** Rows in one lock message of a transaction, as servers take them. */
export const LOCK_KEYS_MAX = 100;
/** Rows that a transaction read and wrote and its next try locks first; beyond them it reads under shared locks again. */
export const CHANGED_ROWS_MAX = 1000;
/** A read, plain write or batch that has no answer after this long is sent to a second storage-proxy too (TXD13). */
export const SPECULATION_DELAY_MS = 50;
/** Second copies at once, per call and per second: what they may add to the load of slow servers. */
export const HEDGES_BURST_MAX = 20;
export const HEDGES_PER_CALL = 0.05;
export const HEDGES_PER_SECOND = 1;
/** A node that failed is asked last for this long. */
export const NODE_PENALTY_MS = 1_000;
/** Messages and bytes of one call to a dedup-worker; more are sent in several calls, one after the other. */
export const INGEST_MESSAGES_MAX = 1_000;
export const INGEST_BYTES_MAX = 3 * 1024 * 1024;
/** Messages in a page when none are asked for. */
export const MESSAGES_PER_PAGE = 1_000;
/** Who follows a log asks so long at a time, and waits so much longer for the answer. */
export const FOLLOW_WAIT_MS = 10_000;
export const FOLLOW_GRACE_MS = 5_000;
/** Rows per page of reads that page by themselves. */
export const PAGE_ROWS = 100;
/** Rows of the largest page. */
export const PAGE_ROWS_MAX = 1000;
/** A question for an outcome waits this long for one coordinator, then asks again: it may be down for good. */
export const RESOLVE_TURN_MS = 2_000;

/** Groups whose last commit a read names. */
export const SEEN_GROUPS_MAX = 32;
/** A start whose master has not answered after this long is queued at the standbys too (TX18): well before a standby may serve, 140 ms after a loss. */
export const STANDBY_DELAY_MS = 50;
/** A queued start waits this long at a standby. */
export const QUEUED_START_MS = 2_000;
/** A coordinator that a start could not be queued at is tried again after this long, while others are waited for: it may be the next master, starting. */
export const QUEUE_AGAIN_MS = 50;
/** Coordinators whose topology a client follows: a majority of three, whichever of them is lost. */
export const WATCHED_COORDINATORS_MAX = 3;
/** Pauses before a broken watch is opened again. */
export const WATCH_BACKOFF: BackoffLimits = { initialMs: 50, maxMs: 2_000 };
/** Ids that one transaction is tried with when servers refuse their time: the second one is made by a clock that the first refusal corrected. */
export const ID_TRIES_MAX = 3;
/** Time for which a clock is corrected since storage-proxies took a timestamp for one of the future: their clocks may be the wrong ones. */
export const TIMESTAMP_CORRECTION_MS = 30_000;
/** Lead of a timestamp that a proxy drew over what this client has written, up to which later ones are made above it: no proxy takes one further ahead. */
export const DRAWN_AHEAD_US_MAX = 3_600_000_000n;
/** Pause before tables are created again where the system group is being taken over. */
export const CREATE_AGAIN_MS = 50;

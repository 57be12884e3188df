/** Budget of one commit or read with all its tries. */
export const CALL_TIMEOUT_MS_DEFAULT = 10_000;
/** Parts of one counter, so that commits of one partition seldom wait for each other (OGD16). */
export const COUNTER_SLOTS = 16;
/** Keys in one message of locks; the coordinator takes no more. */
export const LOCK_KEYS_MAX = 100;
/** Keys in one message of reads; the coordinator takes 1000. */
export const READ_KEYS_MAX = 500;
/** Rows in one page of a range. */
export const PAGE_ROWS = 1_000;
/** Bytes of a row's key in its first key column; a key column holds 1024, a row's key may be longer. */
export const NAME_BYTES = 1_000;

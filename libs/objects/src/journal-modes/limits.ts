/** Ten minutes (OG10). */
export const CHECKPOINT_INTERVAL_MS = 600_000;
/** Unresolved uploads and deletes of the journal's per-transaction modes; one more is OVERLOADED. */
export const TRANSACTIONS_UNRESOLVED_MAX = 10_000;
/** Their bytes: a checkpoint lists them whole, in one record of at most a MiB. */
export const TRANSACTIONS_BYTES_MAX = 768 * 1024;
/** A journal of this size gets a checkpoint before its time, so that recovery reads a bounded part (OGD13) and appends find room. */
export const CHECKPOINT_AT_BYTES = 32 * 1024 * 1024;

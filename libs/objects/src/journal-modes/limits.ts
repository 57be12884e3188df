/** Ten minutes (OG10). */
export const CHECKPOINT_INTERVAL_MS = 600_000;
/** Unresolved uploads and deletes of the journal's per-transaction modes; one more is OVERLOADED. */
export const TRANSACTIONS_UNRESOLVED_MAX = 10_000;
/** Their bytes: a checkpoint lists them whole, in one record of at most a MiB. */
export const TRANSACTIONS_BYTES_MAX = 768 * 1024;

/** Steps that wait, load or sync in one engine; one more is answered with OVERLOADED. */
export const ENGINE_STEPS_MAX = 16_384;
/** Steps that are run for one synced batch, without a pause for the event loop. */
export const BATCH_STEPS_MAX = 1024;
/** A batch takes no further step once its writes have this size: some ten thousand small rows, some 50 ms. */
export const BATCH_BYTES_TARGET = 1024 * 1024;
/** Recently used values kept in memory that no running step needs. */
export const CACHE_ENTRIES_MAX = 16_384;
export const CACHE_BYTES_MAX = 16 * 1024 * 1024;
/** Larger values are not kept. */
export const CACHE_VALUE_BYTES_MAX = 64 * 1024;

/** GC entries collected together and deleted in one commit. */
export const GARBAGE_BATCH_ROWS = 100;
/** GC entries of a batch collected at the same time: all, so that one look at an epoch, one handle and one sync serve a batch. */
export const GC_ENTRIES_CONCURRENT = GARBAGE_BATCH_ROWS;
/** Blobs of one entry removed at the same time. */
export const REMOVALS_CONCURRENT = 8;
/** Part rows of an upload removed in one commit. */
export const PARTS_PER_COMMIT_MAX = 200;
/** How often a collector looks for what is due. */
export const GARBAGE_INTERVAL_MS = 60_000;
/** Rows read at a time when they are only counted. */
export const COUNT_PAGE_ROWS = 1000;
/** The collector finishes a making or removal that lasted this long by this gateway's own clock. */
export const BUCKET_STUCK_AFTER_MS = 120_000;
/** Keys of rows read together while blobs are looked up; one request has fewer. */
export const GATHERED_KEYS_MAX = 200;

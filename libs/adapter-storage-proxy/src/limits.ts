/** After a failover the proxy of the own datacenter is tried again this long after it failed. */
export const HOME_RETRY_MS = 1_000;
/** Rows in one page of a range. */
export const PAGE_ROWS_MAX = 1_000;
/** Keys of one Read: what a storage-proxy takes. */
export const READ_KEYS_MAX = 1000;

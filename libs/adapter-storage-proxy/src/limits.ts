/** After a failover the proxy of the own datacenter is tried again this long after it failed. */
export const HOME_RETRY_MS = 1_000;
/** Rows in one page of a range. */
export const PAGE_ROWS_MAX = 1_000;
/** Keys of one read of rows of objects, and rows in one page of a range: what a storage-proxy takes. */
export const METADATA_READ_KEYS = 32;
export const METADATA_PAGE_ROWS = 256;
/** What a commit or a read of rows of objects may take; above what the engine takes with all its tries. */
export const METADATA_TIMEOUT_MS = 12_000;
/** Keys of one Read: what a storage-proxy takes. */
export const READ_KEYS_MAX = 1000;
/** Exchanges of a storage-proxy with its replicas that a call's time is multiplied by, whatever it says. */
export const EXCHANGES_MAX = 16;

/** Keys in one Lock. */
export const LOCK_KEYS_MAX = 100;
/** Keys in one Read. */
export const READ_KEYS_MAX = 1_000;
/** Writes in one Write, Commit or Execute. */
export const WRITES_MAX = 1_000;
/** Rows in one page when none is asked for, and at most. */
export const PAGE_ROWS_DEFAULT = 100;
export const PAGE_ROWS_MAX = 1_000;
export const PAGE_TOKEN_BYTES_MAX = 16 * 1024;
/** Statements in one CreateTables. */
export const CREATE_STATEMENTS_MAX = 200;
/** Parsed statements kept by text. */
export const PARSED_STATEMENTS_MAX = 1_000;
/** Table definitions in one page of the schema. */
export const TABLES_PAGE_ROWS = 200;
/** Pause between two looks for what another node has yet to write. */
export const POLL_MS = 20;
/** Looks for a schema version just committed before the answer goes out anyway. */
export const SCHEMA_SETTLE_POLLS = 50;
/** Budget of a CreateTables passed on to the system group's master when the caller gave more. */
export const FORWARD_TIMEOUT_MS_MAX = 10_000;

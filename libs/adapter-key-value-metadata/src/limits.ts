/** Conditions and writes of one commit (LIMIT_EXCEEDED). */
export const COMMIT_ROWS_MAX = 4_096;
/** Values of one commit together (LIMIT_EXCEEDED). */
export const COMMIT_BYTES_MAX = 16 * 1024 * 1024;

/** Hints for one peer, by the bytes of their keys and values; more are left to anti-entropy. */
export const HINT_BYTES_MAX = 256 * 1024 * 1024;
/** Hints that go to a peer in one call, and their bytes: the call ends with the hint that passes these. */
export const HINT_CALL_HINTS_MAX = 500;
export const HINT_CALL_MUTATIONS_TARGET = 1000;
export const HINT_CALL_BYTES_TARGET = 1024 * 1024;
/** Hints go to a peer at this rate at most: a peer that is back serves as well. */
export const HINT_BYTES_PER_MS = 16 * 1024;
/** Between two looks whether a peer is reachable, and after a call that failed. */
export const HINT_POLL_MS = 200;

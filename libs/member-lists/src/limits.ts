/** The command that changes a list: one call, the pause before the next, and all of it: a few steps, `nextListAfterMs` apart. */
export const COMMAND_CALL_TIMEOUT_MS = 5_000;
export const COMMAND_POLL_MS = 500;
export const COMMAND_TIMEOUT_MS = 120_000;

/** The list of members is read so often: a few times in `listValidMs`. */
export const LIST_READ_EVERY_MS = 1_000;
/** A member that is not in the list reads it this often, and says this often that it waits. */
export const LIST_AWAITED_POLL_MS = 200;
export const LIST_AWAITED_LOG_EVERY_MS = 10_000;
/** Pause before a list that could not be read is read again, at the start. */
export const LIST_START_POLL_MS = 20;
/** Pause between two looks at a unit that this member should take while its lease has ended, or whose epoch the log has not confirmed. */
export const UNIT_POLL_MS = 20;

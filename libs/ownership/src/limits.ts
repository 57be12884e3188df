/** The list of members is read so often: a few times in `listValidMs`. */
export const LIST_READ_EVERY_MS = 1_000;
/** A member that is not in the list reads it this often, and says this often that it waits. */
export const LIST_AWAITED_POLL_MS = 200;
export const LIST_AWAITED_LOG_EVERY_MS = 10_000;
/** Pause before a list that could not be read is read again, at the start. */
export const LIST_START_POLL_MS = 20;
/** Pause between two looks at a unit that this member should take while its lease has ended, or whose epoch the log has not confirmed. */
export const UNIT_POLL_MS = 20;
/** Longest pause of a member whose openings of another's unit are in vain: as long as an opening takes on a slow machine, since a failed owner is replaced no sooner. */
export const VAIN_OPENING_PAUSE_MS_MAX = 10_000;
/** A member that has not tried for so long begins with the shortest pause again. */
export const VAIN_OPENINGS_FORGOTTEN_MS = 60_000;

/** Heads or uploads looked at before the place of a pass is recorded. */
export const LIFECYCLE_PAGE = 200;
/** Keys whose versions are read, and versions that are removed, at the same time. */
export const LIFECYCLE_AT_ONCE = 8;
/** Versions of one key read at once. */
export const LIFECYCLE_VERSIONS_PAGE = 100;
/** How often the versions of a key are read that others write meanwhile; then the next pass looks. */
export const LIFECYCLE_VERSIONS_TRIES = 3;
/** What a removal counts at the rate of rows: it is a synced commit. */
export const LIFECYCLE_REMOVAL_ROWS = 10;
/** A pass that is ahead of its rate by so long pauses. */
export const LIFECYCLE_PAUSE_MS = 20;
export const LIFECYCLE_ROWS_PER_SECOND = 2000;
export const LIFECYCLE_INTERVAL_MS = 3_600_000;
export const LIFECYCLE_DAY_MS = 86_400_000;
/** How often a gateway looks whether a pass is due, or the one of another gateway moves on; and the pause after a failure. */
export const LIFECYCLE_LOOK_MS = 60_000;
/** A pass at the same place for so long has lost its gateway: another one continues it. */
export const LIFECYCLE_DEAD_AFTER_MS = 600_000;
/** Time runs at most so many times as fast as monotonic time: a clock that is ahead by an hour is believed after an hour. */
export const LIFECYCLE_TIME_RATE_MAX = 2;
/** A clock that is ahead of the time of lifecycle rules by more than this is reported. */
export const LIFECYCLE_LAG_REPORTED_MS = 3_600_000;

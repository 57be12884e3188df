/** Rows or blobs looked at before the place of a scrub is recorded. */
export const SCRUB_PAGE = 100;
/** A page of rows ends once their blobs hold so much. */
export const SCRUB_PAGE_BYTES = 64 * 1024 * 1024;
/** Blobs inspected at the same time. */
export const SCRUB_INSPECTIONS = 8;
/** Bodies beside rows that are read at once. */
export const BODIES_AT_ONCE = 50;
/** How often a scrub looks for the version of a body while its head changes. */
export const STRAY_LOOKS = 8;
/** What a row, or a blob that is only looked up, counts at the scrub's rate: its look-ups cost about as much as reading so much. */
export const SCRUB_ROW_BYTES = 4096;
/** A scrub that is ahead of its rate by so long pauses. */
export const SCRUB_PAUSE_MS = 20;
export const SCRUB_BYTES_PER_SECOND = 4 * 1024 * 1024;
export const SCRUB_INTERVAL_MS = 86_400_000;
/** How often a gateway looks whether a scrub is due, or the one of another gateway moves on; and the pause after a failure. */
export const SCRUB_LOOK_MS = 60_000;
/** A page with a blob that the store cannot read is tried so often; the last try passes over such blobs. */
export const SCRUB_PAGE_TRIES = 3;
/** A scrub at the same place for so long has lost its gateway: another one continues it. The longest blob takes 20 minutes. */
export const SCRUB_DEAD_AFTER_MS = 3_600_000;
/** The newest findings, for operators; the log has all. */
export const SCRUB_FINDINGS_KEPT = 100;

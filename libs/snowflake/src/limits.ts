/** Milliseconds since the Unix epoch at which the time of an id is 0: 2020-01-01 UTC. */
export const GUID_EPOCH_MS = 1_577_836_800_000;
/** Bits of an id, from the top: 1 zero, time, worker, sequence. Its time ends in September 2089. */
export const TIME_BITS = 41;
export const WORKER_BITS = 10;
export const SEQUENCE_BITS = 12;
export const WORKER_ID_MAX = 2 ** WORKER_BITS - 1;
/** Ids of one worker in one millisecond; one more takes the next millisecond. */
export const SEQUENCES_PER_MS = 2 ** SEQUENCE_BITS;
/** An id's time may run ahead of the clock by so much; then its maker waits. */
export const BORROW_MS_MAX = 1_000;
/** A clock that stands further behind the ids already made is refused with CLOCK_UNUSABLE; one that stands less far behind is waited for. */
export const STEP_BACK_MS_MAX = 10_000;
/** Ids in one `take`. */
export const TAKE_COUNT_MAX = 100_000;
/**
 * How far the high-water mark is raised ahead of the ids. Below BORROW_MS_MAX: so a start right after a crash needs no waiting, since its
 * first id may be this far ahead of the clock.
 */
export const MARK_AHEAD_MS = BORROW_MS_MAX - 1;
/** Characters of the text form. */
export const TEXT_LENGTH = 13;
/** How long a caller should wait, at most, when the clock stands behind the ids already made. */
export const CLOCK_RETRY_MS = 10_000;

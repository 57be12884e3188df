/** Mutations and bytes that go to a replica as one message; a larger apply is sent in several. */
export const APPLY_CHUNK_MUTATIONS_MAX = 1000;
export const APPLY_CHUNK_BYTES_TARGET = 1024 * 1024;
/** A stored row: no write makes it larger. Writes that are under way at one time may pass it together, so copies and reads take any size (I13). */
export const ROW_BYTES_MAX = 2 * 1024 * 1024;
/** A node remembers rows above this size: a smaller one and the largest value, or batch, stay below ROW_BYTES_MAX. */
export const ROW_BYTES_NOTICED = 1024 * 1024;
/** Keys of them that are remembered: of 10 GiB of rows at least, or of 256 MiB where keys have 64 KiB. */
export const LARGE_ROWS_NOTICED = { entriesMax: 10_000, bytesMax: 16 * 1024 * 1024 };
/** A repair of a larger row is sent as several mutations. */
export const REPAIR_MUTATION_BYTES_MAX = 2 * 1024 * 1024;
/** Keys that are asked for in one message. */
export const READ_CHUNK_KEYS_MAX = 200;
/** Keys of rows of groups that are read once more in one message, each with the place in its log that replicas reach first. */
export const READ_AGAIN_KEYS_MAX = 64;
/** How often rows are read when the replicas that are to be repaired drop tombstones each time. */
export const READ_TRIES_MAX = 4;
/** Images, dead ones included, in one page of a replica's range. */
export const RANGE_IMAGES_MAX = 1000;
/** A replica ends its page once the images have this size. */
export const RANGE_BYTES_TARGET = 1024 * 1024;
/** Asked for beyond the live rows wanted: a few dead rows then cost no second round. Doubles with every further one. */
export const RANGE_SLACK_IMAGES = 8;
/** Stored bytes of the rows of one page: it ends before the row that would pass them, so that rows of any legal size are listed. */
export const PAGE_ROW_BYTES_MAX = 2 * 1024 * 1024;
/** Images one readRange looks at; then it answers a short page that says where to go on. */
export const RANGE_SCAN_IMAGES_MAX = 100_000;
/** Repairs of a third replica that run in the background; more are left to the next read. */
export const BACKGROUND_REPAIRS_MAX = 64;
/** A call that has failed already waits this long for the remaining replicas: whether one applied the write decides the error. */
export const LAST_WORD_MS = 50;
/** Tombstones that one step collects, and the pause between two steps: other writes go on in between. */
export const TOMBSTONES_PER_STEP_MAX = 256;
export const TOMBSTONES_PAUSE_MS = 5;
/** Keys of one atomic read: one step of a replica loads them all. */
export const ATOMIC_READ_KEYS_MAX = READ_CHUNK_KEYS_MAX;
/** Stored bytes that an atomic read answers; the rest of a message between nodes is for what frames them. */
export const ATOMIC_READ_BYTES_MAX = 3 * 1024 * 1024;
/** A replica that did not answer an atomic read for so long is not waited for alone. */
export const ATOMIC_HEDGE_MS = 100;
/** How often a replica reads a page whose rows changed meanwhile. */
export const ATOMIC_RANGE_TRIES_MAX = 16;

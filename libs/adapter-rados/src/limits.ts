/** Bytes under one checksum: what a range read reads and verifies at least. */
export const BLOCK_BYTES = 256 * 1024;
/** Writes are gathered to this size; the checksums of its blocks are one attribute of the stripe. */
export const PART_BYTES = 1024 * 1024;
/** A blob is striped over objects of this size: the largest that Ceph recovers without a stall. */
export const STRIPE_BYTES = 4 * 1024 * 1024;
/** The longest blob: one part of a multipart upload (LIMIT_EXCEEDED). */
export const BLOB_BYTES_MAX = 5 * 1024 ** 3;
/** Stripes that a blob's entry names from the start; then four times as many, up to all. */
export const STRIPES_RESERVED_FIRST = 4;
export const STRIPES_RESERVED_FACTOR = 4;
export const STRIPES_MAX = BLOB_BYTES_MAX / STRIPE_BYTES;
/** Parts of one blob on their way at the same time. */
export const PARTS_IN_FLIGHT = 4;
/** Sequences of one shard of an epoch's index. */
export const SEQUENCE_BITS_PER_SHARD = 20;
/**
 * Index objects of a shard, each with every so-manieth sequence: 65 536 keys at most, a third of those of which Ceph warns. A cluster makes
 * one change of an object after the other, a commit each, so uploads at the same time use different ones.
 */
export const SLOTS_PER_SHARD = 16;
/** Entries, shards or epochs of one read. */
export const KEYS_PER_READ = 1000;
/** An entry holds bucket and key, of at most 1024 bytes each (LIMIT_EXCEEDED). */
export const ENTRY_BYTES_MAX = 4096;
/** Index objects known to be open: others are looked up again. */
export const KNOWN_OBJECTS_MAX = 256;
/** Abandoned blobs of which this process knows that nothing is on its way; a forgotten one is removed by burning its names. */
export const ABANDONED_MAX = 4096;
/** Stripes, shards or epochs worked on at the same time by one call. */
export const CALLS_AT_ONCE = 16;
/** A removal or a close that other processes change under it is tried again. */
export const ATTEMPTS_MAX = 32;
/** Operations on their way to the cluster; more wait. */
export const OPERATIONS_MAX = 64;
/** After it the cluster has not answered: unknown for a write. */
export const OPERATION_TIMEOUT_S = 15;
/** How long a connection is tried. */
export const CONNECT_TIMEOUT_S = 10;
/**
 * Time without an answer to an operation after which a process that stops gives up the cluster: at the latest after twice this time, which with the
 * rest of the stop is less than the 5 s after which a stop without progress is a failure.
 */
export const STOP_SILENCE_MS = 1_500;
/** The process stays while an operation is on its way: callbacks from other threads alone do not keep it. */
export const KEEP_ALIVE_MS = 60_000;

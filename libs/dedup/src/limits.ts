import { assert, type BackoffLimits } from "@concord/runtime";

/** Bytes of an id as a message gives it. */
export const ID_BYTES_MAX = 256;
/** Bytes of the name of a source of ids; a message of the input with a longer one is a dead letter. */
export const SOURCE_BYTES_MAX = 64;
/** Sources whose masks are kept; with more of them at a time each page computes some again. */
export const SOURCE_MASKS_KEPT = 1024;
/** Sources of ids that have figures of their own, in a process: each is three series. */
export const SOURCE_FIGURES_MAX = 1_000;
/** Sources that the id of a message is looked for in, one after the other. */
export const ID_SOURCES_MAX = 8;
/** Levels of a JSON path. */
export const JSON_PATH_MAX = 16;
/** Output offsets of one record of the window's journal: so many are read from the output again after a crash; fewer where segments are small. */
export const JOURNAL_OFFSETS = 1024;
export const JOURNAL_RECORDS_PER_SEGMENT = 16;
/** Messages and bytes of one batch of the processing loop. */
export const PAGE_MESSAGES_MAX = 10_000;
export const PAGE_BYTES_MAX = 64 * 1024 * 1024;
/** Segments that are kept: each look-up asks the filter of each, and each has files open. */
export const SEGMENTS_MAX = 64;
/** Output offsets of a segment. */
export const IDS_PER_SEGMENT_MIN = 16;
export const IDS_PER_SEGMENT_MAX = 16 * 1024 * 1024;
/** How far the time that ids age by follows a step of the clock at once; further only as fast again as time passes. */
export const CLOCK_STEP_MS_MAX = 3_600_000;
/** Memory that a window's options may ask for; see `windowMemoryBytes`. */
export const WINDOW_MEMORY_BYTES_MAX = 3 * 1024 * 1024 * 1024;
/** Ids of one stored value of a segment: what one look-up reads. */
export const IDS_PER_BLOCK = 256;
/** Values written or read at once while a segment is written or opened. */
export const BLOCKS_PER_BATCH = 64;
/** Filter bits per id (DDD6) and the bits each id sets. */
export const FILTER_BITS_PER_ID = 16;
export const FILTER_HASHES = 8;
/** InputResults that are kept for those who ask late, by whole pages; those of the newest page always. */
export const RESULTS_KEPT = 65_536;
/** Offsets whose results are awaited; one more is refused with OVERLOADED. */
export const WAITERS_MAX = 100_000;
/** Ids of one call of `seen`. */
export const SEEN_IDS_MAX = 10_000;
/** Tries in a row to open session and window before the partition stops, and the pauses between them. */
export const OPEN_ATTEMPTS_MAX = 10;
export const OPEN_BACKOFF: BackoffLimits = { initialMs: 20, maxMs: 5000 };
/** Packed ids of one blob of a snapshot (1 MiB), and bytes of a snapshot's manifest: 64 segments of the largest size. */
export const SNAPSHOT_BLOB_IDS = 65_536;
export const SNAPSHOT_MANIFEST_BYTES_MAX = 512 * 1024;
/** Snapshots of a partition that are kept, and found ones that a restore tries, newest first. */
export const SNAPSHOTS_KEPT_MAX = 8;
export const SNAPSHOT_CANDIDATES_MAX = 2 * SNAPSHOTS_KEPT_MAX;
/** Pause between two snapshots. */
export const SNAPSHOT_EVERY_MS_MIN = 100;
/** One snapshot; what it did not upload by then it uploads the next time. */
export const SNAPSHOT_MS_MAX = 600_000;
/** One segment of a restore, or a snapshot's manifest: a store that needs longer is left, and the output read instead. */
export const SNAPSHOT_READ_MS_MAX = 20_000;
/** Messages of a page while the output is read again. */
export const REBUILD_PAGE = { messages: 4096, bytes: 8 * 1024 * 1024 } as const;

/** Of a segment in a snapshot's manifest, but for the hashes of its blobs. */
const RANGE_BYTES = 36;
const BLOB_HASH_BYTES = 16;

assert(SNAPSHOT_BLOB_IDS % IDS_PER_BLOCK === 0, "DDD11: a blob is of whole blocks");
assert(SNAPSHOT_CANDIDATES_MAX >= SNAPSHOTS_KEPT_MAX, "DD11: a restore tries every snapshot that is kept");
assert(
  SEGMENTS_MAX * (RANGE_BYTES + Math.ceil(IDS_PER_SEGMENT_MAX / SNAPSHOT_BLOB_IDS) * BLOB_HASH_BYTES) < SNAPSHOT_MANIFEST_BYTES_MAX,
  "DD11: the manifest of the largest window is one that is read",
);

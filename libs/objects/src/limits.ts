import type { BackoffLimits, BoundedCacheLimits } from "@concord/runtime";

/** Every limit of the store. Each store has its own copy, so tests and operators can choose. */
export interface ObjectLimits {
  /** Objects up to this size live in rows (OGD14). */
  readonly inlineBytesMax: number;
  /** Of those, objects up to this size are in the head row itself, others in a row beside it. */
  readonly headBytesMax: number;
  /** One upload or part. */
  readonly blobBytesMax: number;
  /** A completed upload. */
  readonly objectBytesMax: number;
  /** Bodies are gathered to chunks of this size before they are written: fewer, larger writes. */
  readonly writeBytes: number;
  /** A request that streams longer is ended (OGD10). */
  readonly longestRequestMs: number;
  /** Time between an oid's last reference and its removal (OGD10); at least the longest request. */
  readonly garbageGraceMs: number;
  /** How often a commit is tried against other writers of the same row before WRITE_CONFLICT. */
  readonly commitAttemptsMax: number;
  /** Every part but the last is at least this large (OG1). */
  readonly partBytesMin: number;
  /** A completing upload that was silent for this long may be taken over, aborted or uploaded to (OGD11). */
  readonly completeStaleMs: number;
  /** How long a repeated complete is answered as the first (OGD11). */
  readonly completeRememberedMs: number;
  /** How long a request waits for an unresolved commit to be decided before it answers OUTCOME_UNKNOWN (OGD2). */
  readonly resolveWaitMs: number;
  /** Pauses between tries to decide. */
  readonly resolveBackoff: BackoffLimits;
  /** How often another blob name is taken when one is refused (OGD3, OGD5). */
  readonly blobNamesMax: number;
  readonly listLimitMax: number;
  /** Rows read at once while listing. */
  readonly listPageRows: number;
  /** Part rows read at once while an object in parts is streamed. */
  readonly partPageRows: number;
  /** Buckets whose number of shards is kept in memory. */
  readonly bucketsCached: BoundedCacheLimits;
  /** Events that wait, of one bucket and of all: above it changes that make events are refused (OVERLOADED). */
  readonly eventBytesMax: number;
  readonly eventBytesTotalMax: number;
  /** How old the figure may be by which that is decided; what this gateway adds counts at once. */
  readonly eventCountMs: number;
}

export const OBJECT_LIMITS: ObjectLimits = {
  inlineBytesMax: 16 * 1024,
  headBytesMax: 256,
  blobBytesMax: 5 * 1024 ** 3,
  objectBytesMax: 5 * 1024 ** 4,
  writeBytes: 1024 * 1024,
  longestRequestMs: 3_600_000,
  garbageGraceMs: 3_600_000,
  commitAttemptsMax: 100,
  partBytesMin: 5 * 1024 * 1024,
  completeStaleMs: 60_000,
  completeRememberedMs: 86_400_000,
  resolveWaitMs: 5000,
  resolveBackoff: { initialMs: 10, maxMs: 1000 },
  blobNamesMax: 4,
  listLimitMax: 1000,
  listPageRows: 200,
  partPageRows: 100,
  bucketsCached: { entriesMax: 10_000, bytesMax: 4 * 1024 * 1024 },
  eventBytesMax: 64 * 1024 * 1024,
  eventBytesTotalMax: 1024 ** 3,
  eventCountMs: 1000,
};

/** UTF-8 bytes of a key. */
export const KEY_BYTES_MAX = 1024;
export const BUCKET_NAME_MIN = 3;
export const BUCKET_NAME_MAX = 63;
export const SHARDS_MAX = 1024;
export const TAGS_OBJECT_MAX = 10;
export const TAGS_BUCKET_MAX = 50;
export const TAG_NAME_MAX = 128;
export const TAG_VALUE_MAX = 256;
/** Names and values of user metadata together. */
export const METADATA_BYTES_MAX = 2048;
/** Of a stored ACL: a hundred grants of ids with 64 characters fit. */
export const ACL_CHARS_MAX = 16 * 1024;

/** The last moment of the year 9999: no lock ends later, and no date of S3 is. */
export const LOCK_UNTIL_MS_MAX = 253_402_300_799_999;
/**
 * The time of locks runs at most so many times as fast as monotonic time: a clock that is years ahead for years shortens a lock by a tenth at most, and the
 * time in which no gateway ran is caught up slowly, so that locks end late rather than early.
 */
export const LOCK_TIME_RATE_MAX = 1.1;
/** How often a gateway writes down how far the time of locks has come. */
export const LOCK_TIME_RENEW_MS = 60_000;
/** A clock that is ahead of the time of locks by more than this is reported. */
export const LOCK_TIME_LAG_REPORTED_MS = 3_600_000;

/**
 * How long a request watches a bucket that another one is making, changing or removing before it takes that over: in the end longer than that
 * takes on a loaded store. And how long it does so in all.
 */
export const BUCKET_PATIENCE = { initialMs: 20, maxMs: 20_000 };
export const BUCKET_PATIENCE_TOTAL_MS = 60_000;

import type { UnitTimes } from "@concord/ownership";

/** Messages of one Ingest, and bytes of their ids, keys, values and headers together: below the message limit of a call. */
export const INGEST_MESSAGES_MAX = 1_000;
export const INGEST_BYTES_MAX = 3 * 1024 * 1024;
/** Bytes of an id, UTF-8 (DD2). */
export const ID_BYTES_MAX = 256;
export const KEY_BYTES_MAX = 64 * 1024;
/** What headers of the pipeline begin with: a producer's may not. */
export const RESERVED_HEADER_PREFIX = "concord-";
/** Headers of one message, bytes of a name and of a value. */
export const HEADERS_MAX = 64;
export const HEADER_NAME_BYTES_MAX = 128;
export const HEADER_VALUE_BYTES_MAX = 64 * 1024;
/** A source of ids, as requests and the configuration name it (DDD13). */
export const SOURCE_PATTERN = /^[A-Za-z0-9_.@-]{1,64}$/;
/** Configured sources, and callers of one. */
export const SOURCES_MAX = 1_000;
/** Latest timestamp: what a date can hold. */
export const TIMESTAMP_MS_MAX = 8_640_000_000_000_000n;
/** Messages that are taken and not answered, all calls together: below what partitions keep waiters for. */
export const INGEST_IN_FLIGHT_MESSAGES_MAX = 80_000;
/** Bytes of messages that are taken and not answered, all calls together; a call beyond it is answered with OVERLOADED. */
export const INGEST_IN_FLIGHT_BYTES_MAX = 128 * 1024 * 1024;

/** Ids of one Seen. */
export const SEEN_IDS_MAX = 1_000;

/** Messages of one page: when none are asked for, and at most. */
export const READ_MESSAGES_DEFAULT = 1_000;
export const READ_MESSAGES_MAX = 10_000;
/** A page read from a log ends after the message that passes it. */
export const READ_PAGE_BYTES = 1024 * 1024;
/** An answer ends before the message that would pass it: the largest message of all alone fits below the message limit of a call. */
export const READ_ANSWER_BYTES_MAX = 3_500 * 1024;
/** The largest message that an answer can hold: a call's message limit less what is around it. Producers of Kafka's topics may write larger ones. */
export const READ_MESSAGE_BYTES_MAX = 4 * 1024 * 1024 - 1024;
export const READ_WAIT_MS_MAX = 60_000;
/** A Read that waits answers so long before its caller's deadline. */
export const READ_WAIT_MARGIN_MS = 50;
/** Credits a consumer may have outstanding. */
export const CONSUME_CREDITS_MAX = 100_000;

export const PARTITIONS_MAX = 256;
/** One batch of the processing loop. */
export const BATCH_MESSAGES_MAX = 5_000;
export const BATCH_BYTES_MAX = 4 * 1024 * 1024;
/** The same on Kafka, where a page becomes a record batch. */
export const KAFKA_PAGE = { messages: 4_000, bytes: 1024 * 1024 } as const;
/** The largest `windowIdsMax` setting. */
export const WINDOW_IDS_MIN = 256;
export const WINDOW_IDS_MAX = 256 * 1024 * 1024;
/**
 * The default of `outputRetentionBytes`, for each id of `windowIdsMax`, and at least: a window of messages of 4 KiB on average, headers included, can be
 * rebuilt from the output that is kept.
 */
export const OUTPUT_BYTES_PER_ID = 4 * 1024;
export const OUTPUT_BYTES_MIN = 256 * 1024 * 1024;
/** How long a caller should wait while the window needs all output that may be kept: it ages once in `GAUGE_INTERVAL_MS`. */
export const OUTPUT_FULL_RETRY_MS = 5_000;
/** Segments of a window: with too few ageing is coarse, with many each look-up asks more filters. */
export const WINDOW_SEGMENTS = 16;
/** Pause between two looks at the partitions' statistics for the metrics. */
export const GAUGE_INTERVAL_MS = 5_000;
/** An input that a transaction holds back at one offset for so long is in the log: Kafka's own limit of a transaction is a minute by default. */
export const INPUT_BLOCKED_WARNING_MS = 60_000;
/** A window that stays too short is in the log so often. */
export const WINDOW_SHORT_LOG_EVERY_MS = 3_600_000;
/** Workers that share a log: each hears all others. */
export const WORKERS_MAX = 16;
/** Budget of asking a worker that leaves what it serves. */
export const LIST_TIMEOUT_MS = 1_000;
/** Of the drain's grace: the other workers take this one's partitions over. */
export const HAND_OVER_SHARE = 0.5;
/** A partition that is released: what has been appended here gets its results within this time, or its calls end with unknown outcomes. */
export const RELEASE_DRAIN_MS = 1_000;
/** After a release this worker does not take the partition back, though it thinks that it owns it, unless the other one fails: opinions spread in less. */
export const RELEASE_HOLD_MS = 5_000;
/** A partition that belongs to another worker now is served here so long until that asks for it. */
export const RELEASE_WAIT_MS = 2_000;
/**
 * A worker that a majority has lost for so long ends its partitions and their openings; the log fences it before, if another one took over. A machine with little CPU loses its lease
 * for some milliseconds several times a second, and an opening takes seconds there.
 */
const LOST_MS = 1_000;
/** How partitions move between workers. */
export const UNIT_TIMES: UnitTimes = {
  releaseMs: RELEASE_WAIT_MS,
  lostOpeningMs: LOST_MS,
  lostServingMs: LOST_MS,
  drainMs: RELEASE_DRAIN_MS,
  releaseTimeoutMs: 2_000,
  holdMs: RELEASE_HOLD_MS,
  againMs: 200,
  // At a node's death its transactions are taken over in the same process, and they have a quarter of a second.
  takeOverPauseMs: 200,
  leaveMs: 4_000,
};
/** A call waits so long, and not beyond its deadline, for a partition that is on its way to another worker. */
export const ROUTE_WAIT_MS = 10_000;
/** Pause before another worker is looked for, after one has refused a call that was passed on to it. */
export const ROUTE_AGAIN_MS = 20;

/** Dead letters of one page that is listed or sent again, and of one call. */
export const REDRIVE_PAGE_MESSAGES = 100;
/** Dead letters sent again in a second unless another rate is asked for: beside the producers' own. */
export const REDRIVE_PER_SECOND = 100;
export const REDRIVE_PER_SECOND_MAX = 100_000;
/** A call of the command, and how long it repeats one that finds no worker. */
export const REDRIVE_CALL_MS = 15_000;
export const REDRIVE_TRIES_MS = 60_000;
export const REDRIVE_PAUSE_MS = 500;
/** Progress is printed so often. */
export const REDRIVE_REPORT_EVERY_MS = 1_000;

/** Answer of one request; a broker that is paused is left after it. */
export const REQUEST_TIMEOUT_MS = 4_000;
export const CONNECT_TIMEOUT_MS = 3_000;
/** A whole publication; what is not decided by then is unknown. */
export const PUBLISH_TIMEOUT_MS = 15_000;
/** The broker aborts a transaction that is open for longer; readers of the output wait at most so long for an owner that is gone. */
export const TRANSACTION_TIMEOUT_MS = 10_000;
/** A step that the broker refuses because the transaction before is being completed is repeated so often, with such pauses. */
export const CONCURRENT_ATTEMPTS_MAX = 2_000;
export const CONCURRENT_PAUSE_MS = 5;
/** Pause between two looks whether what was committed is visible. */
export const VISIBLE_PAUSE_MS = 1;
/** Pause between two looks at the topics' partitions and ids. */
export const TOPICS_EVERY_MS = 60_000;
/** The pipeline's record of an open partition is committed again so often: far below OFFSETS_KEPT_MINUTES_MIN. */
export const RECORD_EVERY_MS = 3_600_000;
/** Bytes of one fetch, and of one record batch that is sent if the topic takes more. */
export const FETCH_BYTES = 1024 * 1024;
export const BATCH_BYTES_MAX = 1024 * 1024;
/** Bytes of a record batch around its records. */
export const BATCH_OVERHEAD_BYTES = 61;
/** Leader epochs that are kept by partition of the input: each is an election, and only those of what is not acknowledged yet are needed. */
export const EPOCHS_KEPT = 64;
/** Pause between two looks for messages of other producers. */
export const POLL_MS = 25;
/** Offsets of the output that are searched backwards for the newest message, at first; doubled until one is found. */
export const TAIL_OFFSETS = 64n;
/** Bytes of a decompressed record batch: a larger one is damage, or an attack. */
export const DECOMPRESSED_BYTES_MAX = 256 * 1024 * 1024;
/** Fetched messages that are kept for the next page, by topic and partition, the oldest fetch goes first; their bytes: a whole batch fits, decompressed. */
export const FETCHES_KEPT = { entriesMax: 64, bytesMax: DECOMPRESSED_BYTES_MAX };
/** What the pipeline's headers add to a message between input and output. */
export const HEADER_BYTES_ADDED = 1_024;
/** How often a partition of a new topic is asked for until it is led. */
export const LEADER_ATTEMPTS_MAX = 60;
/** A single owner commits its offset at most so often when the output says more: the output's newest message is what counts. */
export const COMMIT_EVERY_MS = 1_000;
/**
 * A single owner opens again after so long. Brokers forget a producer that wrote nothing for a day, and the id that it is fenced by after
 * seven: an owner that old could not be fenced.
 */
export const SINGLE_OWNER_MS_MAX = 12 * 3_600_000;
/** Brokers remember producers and transactional ids that write nothing for at least so long: well above the above. Kafka's standard is a day and a week. */
export const PRODUCER_KEPT_MS_MIN = 2 * SINGLE_OWNER_MS_MAX;
/** Brokers keep a committed offset at least so long: a partition without messages for longer stops. Kafka's standard is a week. */
export const OFFSETS_KEPT_MINUTES_MIN = 24 * 60;
/** How often it is asked whether everything before a fence is visible; then the end of a transaction counts as lost (I9). */
export const MARKER_ATTEMPTS_MAX = 400;
/** Pauses between two tries to reach the brokers at the start. */
export const START_PAUSES = { initialMs: 200, maxMs: 5_000 };

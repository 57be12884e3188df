/** S3's own: largest object, largest single upload or part. */
export const OBJECT_BYTES_MAX = 5 * 1024 ** 4;
export const PART_BYTES_MAX = 5 * 1024 ** 3;
export const ACCESS_KEYS_MAX = 1000;
/** Quotas are judged by rows read so long ago at most. */
export const QUOTA_READ_EVERY_MS = 5000;
export const QUOTA_BUCKETS_AT_ONCE = 16;
/** Entries of one page of a list, S3's own. */
export const LIST_PAGE_MAX = 1000;
/** Deletes of one DeleteObjects that run together: one synced batch serves them all. */
export const DELETES_AT_ONCE = 50;
export const UPLOADS_IN_FLIGHT_DEFAULT = 256;
export const UPLOAD_BUFFER_BYTES_DEFAULT = 256 * 1024 * 1024;
/**
 * The most memory of one upload: chunks in flight, the two buffers of a body that is hashed beside the main thread, and the writer's. A smaller body
 * counts with its own length.
 */
export const UPLOAD_SHARE_BYTES = 3.25 * 1024 * 1024;
export const DOWNLOAD_BUFFER_BYTES_DEFAULT = 1024 * 1024 * 1024;
/** The most memory of one download: the chunk that the connection has not taken, and the one that is read ahead. */
export const DOWNLOAD_SHARE_BYTES = 2 * 1024 * 1024;
/** Rates of bytes: what an idle owner may move at once, told by the time for which its rate would need. */
export const RATE_BURST_MS = 1000;
/** Bytes that move between two looks at the rate; the lowest rate is one such step a second. */
export const RATE_STEP_BYTES = 64 * 1024;
/** A transfer of which a step would wait for longer, behind the others of its tenant or address, is refused. */
export const RATE_WAIT_MS_MAX = 10_000;
/** So many owners are remembered before idle ones are looked for. */
export const RATE_SWEEP_MIN = 1024;
export const COLLECT_AHEAD_MS_MAX = 10 * 365 * 24 * 3_600_000;
/** Names in one consistency report. */
export const CONSISTENCY_NAMES_MAX = 100;
/** Pause before the clock is asked again whether it has passed the ids already made. */
export const CLOCK_RETRY_MS = 200;
/** Worker ids of one gateway: so many times its clock may be set back before it waits. */
export const WORKER_IDS_MAX = 4;
/** Documents of buckets kept as parsed, of each kind: policies, CORS rules, lifecycle rules, settings of websites. The text of one is up to 256 KiB. */
export const DOCUMENTS_CACHED = { entriesMax: 1000, bytesMax: 8 * 1024 * 1024 };
/** Of each kind: what is in use, and what is left of earlier ones. */
export const ENCRYPTION_KEYS_MAX = 100;
export const TRUSTED_PROXIES_MAX = 100;
export const BUCKETS_PAGE_MAX = 10_000;
/** Tries to take a worker id, and to learn what became of a commit about it. */
export const LEASE_ATTEMPTS_MAX = 20;
/** The longest blob that can be packed into a segment: what the data store takes at most. */
export const PACK_BYTES_MAX = 1024 * 1024;
/** Zeros of the next segment of the upload journal: some 10 000 uploads. */
export const UPLOAD_JOURNAL_PREPARED_BYTES = 1024 * 1024;
/** Targets of events, and addresses of one. */
export const EVENT_TARGETS_MAX = 1000;
export const EVENT_WORKERS_MAX = 64;
/** How long the answer to rules of events waits for a target that takes s3:TestEvent. */
export const EVENT_TEST_MS = 3_000;
/** How long a stop waits at least for rows that others keep. */
export const STOP_GRACE_MS_MIN = 1_000;

/** Event rules of buckets kept as parsed, by their text. */
export const EVENT_RULES_CACHED = { entriesMax: 1000, bytesMax: 8 * 1024 * 1024 };
/** JSON of a bucket's event rules, which every header of it has. */
export const EVENT_RULES_BYTES_MAX = 16 * 1024;
export const EVENT_RULES_MAX = 100;
/** Events sent and removed together. */
export const EVENT_PAGE = 100;
/** How often events that were delivered are removed while other gateways remove some of them. */
export const EVENT_REMOVAL_TRIES = 3;
/** Shards whose waiting bytes are remembered between two looks. */
export const OUTBOX_SHARDS_REMEMBERED = 10_000;
/** How often the shards of all buckets that ever had rules are looked at: for events of gateways that are gone. */
export const EVENT_SCAN_MS = 30_000;
/** Pace of the delivery, when nothing else is configured. */
export const EVENTS_PER_SECOND = 2000;
/** A delivery that is ahead of its pace by so much pauses. */
export const EVENT_PAUSE_MS = 20;
/** One call to a target. */
export const EVENT_SEND_MS = 10_000;
/** Pauses while a target fails. */
export const EVENT_BACKOFF = { initialMs: 100, maxMs: 30_000 };
/** Events older than this are not sent any more, when nothing else is configured: below the window of a dedup-worker (28 days). */
export const EVENT_AGE_MS_MAX = 7 * 86_400_000;
/** Buckets read at once by a scan. */
export const EVENT_BUCKETS_PAGE = 100;

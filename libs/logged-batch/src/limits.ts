import { BATCH_BYTES_MAX, BATCH_ROWS_MAX } from "@concord/ports";
import { assert } from "@concord/runtime";

/** Batches a node executes at the same time; one more is OVERLOADED. */
export const EXECUTING_BATCHES_MAX = 1024;

/** A batch above one of these is executed, counted and said (LBD11): a quarter of what is refused. */
export const BATCH_ROWS_WARN = BATCH_ROWS_MAX / 4;
export const BATCH_BYTES_WARN = BATCH_BYTES_MAX / 4;
/** It is said so often. */
export const LARGE_BATCH_LOG_EVERY_MS = 10_000;

/** How long, and for how many batches, a repeated id is answered with the first outcome. */
export const IDEMPOTENCY_WINDOW_MS = 600_000;
export const IDEMPOTENCY_ENTRIES_MAX = 10_000;

/** Entries a holder keeps; one more is OVERLOADED until some are completed. */
export const PENDING_ENTRIES_MAX = 100_000;
/** Their bytes together. */
export const PENDING_BYTES_MAX = 1024 * 1024 * 1024;
/** Of both, up to which a coordinator begins batches: the rest is for those that others have on their way. */
export const COORDINATED_SHARE = 0.9;
/** Entries whose merge is kept ready in memory, by their bytes; for more, the stored entry is read again. */
export const PREPARED_BYTES_MAX = 16 * 1024 * 1024;
/** Entries, decided and removed ids in one call to a holder, of each. */
export const LOG_CALL_ENTRIES_MAX = 1000;
/** A call is closed when its entries, or those of the batches it decides, have this size; a larger one goes alone. */
export const CALL_BYTES_TARGET = 1024 * 1024;
/** A decision, a removal waits so long for entries to the same holder. */
export const DECISION_DELAY_MS = 20;
export const REMOVAL_DELAY_MS = 100;
/** A read waits so long for the decision of a batch that writes its rows; then this node looks for a second holder itself (I5). */
export const RESOLVE_AFTER_MS = 50;
/** Ids that wait to be removed at one holder; more are left to replay. */
export const REMOVALS_WAITING_MAX = 10_000;

/** Bounds of one replay run (LBD5); the next interval takes the next ones. */
export const REPLAY_ENTRIES_MAX = 1000;
export const REPLAY_CONCURRENCY = 32;
export const REPLAY_RUN_MS_MAX = 30_000;
/** Replay offers entries at this rate at most: 16 MiB/s. */
export const REPLAY_BYTES_PER_MS = 16 * 1024;
/** Holders of a batch whose coordinator is lost begin so long after each other (LBD3, LBD4). */
export const LOST_TURN_MS = 100;
/** Ten days, as Cassandra's default: an older batch could bring deleted rows back. */
export const GC_GRACE_MS = 10 * 24 * 3600 * 1000;

assert(EXECUTING_BATCHES_MAX <= IDEMPOTENCY_ENTRIES_MAX, "what runs is known by its id (LBD8)");
assert(DECISION_DELAY_MS < RESOLVE_AFTER_MS, "I5: a decision leaves before a reader's node looks for a second holder");
assert(REPLAY_BYTES_PER_MS * REPLAY_RUN_MS_MAX > BATCH_BYTES_MAX, "one run replays the largest batch (LB8)");

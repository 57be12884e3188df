import { DETECTION_LIMITS } from "@concord/failure-detection";
import type { UnitTimes } from "@concord/ownership";

/** Keys in one Lock. */
export const LOCK_KEYS_MAX = 100;
/** Keys in one Read. */
export const READ_KEYS_MAX = 1_000;
/** Writes in one Write, Commit or Execute. */
export const WRITES_MAX = 1_000;
/** Rows in one page when none is asked for, and at most. */
export const PAGE_ROWS_DEFAULT = 100;
export const PAGE_ROWS_MAX = 1_000;
/** Statements in one CreateTables. */
export const CREATE_STATEMENTS_MAX = 200;
/** Parsed statements kept by text: one of 64 KiB takes some MiB as parsed. */
export const PARSED_STATEMENTS = { entriesMax: 1_000, bytesMax: 16 * 1024 * 1024 };
/** Coordinators that may serve a group: its master and two standbys (TX16). */
export const RANKS = 3;
/** First budget of asking the log whether an epoch still holds; asked again with twice the budget, up to `storageTimeoutMs`, while that is not known. */
export const VERIFY_TIMEOUT_MS = 500;
/** Pause between two looks for what another node has yet to write. */
export const POLL_MS = 20;
/** Looks for a schema version just committed before the answer goes out anyway. */
export const SCHEMA_SETTLE_POLLS = 50;
/** Worker ids 0 to this - 1 are leased to coordinators; those above are for `snowflakeWorkerId`, so the two never meet. */
export const ID_LEASE_WORKERS = 64;
/** A worker id whose holder made no ids for so long may be taken by another coordinator, when no unused one is left. */
export const ID_LEASE_IDLE_MS = 60_000;
/** Marks appended to a worker id's log before those that are not needed any more are dropped. */
export const ID_MARK_TRIM_EVERY = 16n;
/** Budget of a CreateTables passed on to the system group's master when the caller gave more. */
export const FORWARD_TIMEOUT_MS_MAX = 10_000;
/** Starts that wait at standbys; one more gets the refusal it would get without a queue. */
export const QUEUED_OPENS_MAX = 4_096;
/** Longest wait of a queued Start. */
export const QUEUED_OPEN_MS_MAX = 5_000;
/** Budget of one reading of the list, and of asking a coordinator that leaves what it serves. */
export const LIST_TIMEOUT_MS = 1_000;
/** Clients that watch the topology. */
export const TOPOLOGY_WATCHES_MAX = 10_000;
/** A queued Start is answered so long before its deadline: the answer has a way to go. */
export const ANSWER_MARGIN_MS = 20;
/** A planned hand-over lets open transactions end by themselves for so long; then they are aborted. */
const HAND_OVER_MS = 1_000;
/** A coordinator waits this long for another to release a group: longer than HAND_OVER_MS and what is then left to commit. */
const RELEASE_TIMEOUT_MS = 2_000;
/** Pause before another try to take a group over, and after this coordinator was fenced: two that compete do not take turns all the time. */
const TAKE_OVER_AGAIN_MS = 250;
export const UNIT_TIMES: UnitTimes = {
  // It serves until the other asks, or has raised the epoch.
  releaseMs: Number.POSITIVE_INFINITY,
  // A taker that is lost for so long ends its takeover: the next standby has begun by then, and the two would fence each other.
  lostOpeningMs: 40,
  // A coordinator that is lost for so long ends its transactions: no standby needs more to have taken over.
  lostServingMs: 1_000,
  drainMs: HAND_OVER_MS,
  releaseTimeoutMs: RELEASE_TIMEOUT_MS,
  holdMs: TAKE_OVER_AGAIN_MS,
  againMs: TAKE_OVER_AGAIN_MS,
  takeOverPauseMs: 0,
  leaveMs: HAND_OVER_MS + RELEASE_TIMEOUT_MS,
};
/** A pause of the main loop that is longer than one beat is measured and said (TX33). */
export const STALL_MS = DETECTION_LIMITS.beatMs;
export const STALL_LOOK_EVERY_MS = 25;
export const STALL_LOG_EVERY_MS = 10_000;

/** Entries that each of the two lives of a warm-up appends to the coordinator's own log. */
export const WARM_UP_COMMITS = 4;

/** Share of `drainGraceMs` for the connections, once the groups have stopped. */
export const CLOSE_SHARE = 0.05;
/** The storage is asked for its space once in so long. */
export const SPACE_ASKED_EVERY_MS = 500;

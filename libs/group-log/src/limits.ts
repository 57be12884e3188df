import type { BackoffLimits } from "@concord/runtime";

/** One below the largest 64-bit number: what is promised or held always has a next one. */
export const EPOCH_MAX = (1n << 64n) - 2n;
export const SEQ_MAX = EPOCH_MAX;
/** Content of one entry. One flush of a master. */
export const ENTRY_BYTES_MAX = 1024 * 1024;
/** Entries a replica keeps above what is applied; one more is refused with OVERLOADED until the owner's mark moves on. */
export const TAIL_ENTRIES_MAX = 1024;
/** Their contents together: a whole tail fits one message between nodes. */
export const TAIL_BYTES_MAX = 3 * 1024 * 1024;
/** Bytes of applied entries a replica keeps per group, on disk, for one that was away; a replica that lacks older ones copies its store anew. */
export const KEPT_BYTES_MAX = 64 * 1024 * 1024;
/** Applied entries one step drops. */
export const DROPS_PER_STEP_MAX = 64;
/** Groups a replica keeps. */
export const GROUPS_MAX = 1024;
/** Bytes of a group's name and of an owner's name, UTF-8. */
export const GROUP_BYTES_MAX = 64;
export const OWNER_BYTES_MAX = 128;
/** One answer to logRead holds a whole tail. */
export const LOG_READ_ENTRIES_MAX = TAIL_ENTRIES_MAX;
export const LOG_READ_BYTES_MAX = TAIL_BYTES_MAX;

/** Calls to one replica in flight, the slow ones in the background included; above it the replica counts as unreachable. */
export const LINK_IN_FLIGHT_MAX = 256;
/** Tries to make one replica accept one entry: raise it, catch it up, offer again. */
export const OFFER_ATTEMPTS_MAX = 4;

/** Pauses between two looks at the peers of a replica that catches up. */
export const CATCH_UP_BACKOFF: BackoffLimits = { initialMs: 1, maxMs: 50 };
/** Time budget of one look at the peers, which all callers that wait for a group share. */
export const LEARN_TIMEOUT_MS = 1000;
/** Time budget of a catching up that no caller waits for. */
export const CATCH_UP_TIMEOUT_MS = 10_000;
/** Between two looks at what the peers have applied of groups that are idle, and the time budget of one such group in a look, which a stop waits for. */
export const FOLLOW_INTERVAL_MS = 5_000;
export const FOLLOW_TIMEOUT_MS = 2_000;

/** How long a raise that has its majority waits for the others: a promise to another owner is met here, not when one more replica is gone. */
export const RAISE_ALL_MS = 20;
/** A reader that asks for the newest entry, and got two answers that differ, waits so long for the third. */
export const NEWEST_THIRD_MS = 20;
/** Raises of one takeover, each above the highest promise that the one before met. */
export const RAISES_MAX = 4;
/** Tries of each step of a takeover, and the pauses between them. */
export const TAKE_OVER_ATTEMPTS_MAX = 20;
/** Time budget of an exchange with the replicas at the first one. Less than after what silence a peer counts as not reachable. */
export const TAKE_OVER_FIRST_TRY_MS = 200;
export const TAKE_OVER_BACKOFF: BackoffLimits = { initialMs: 5, maxMs: 250 };

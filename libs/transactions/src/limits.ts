import { ENTRY_BYTES_MAX, TAIL_BYTES_MAX } from "@concord/group-log";
import { assert, type BackoffLimits } from "@concord/runtime";

/** Characters of a lock's key in an error: a key may have 1 KiB, and errors travel in headers. */
export const KEY_SHOWN_MAX = 200;

/** Every limit of this lib. What one client exceeds is LIMIT_EXCEEDED, what all together exceed is OVERLOADED. */
export interface TransactionLimits {
  /** Open transactions of one group; above it OVERLOADED. */
  readonly openTransactionsMax: number;
  /** Row writes one transaction may buffer. */
  readonly writesPerTransactionMax: number;
  /** Approximate bytes of the writes one transaction may buffer. */
  readonly bytesPerTransactionMax: number;
  /** Bytes one transaction may hold: rows read under its locks, its writes, its last answers. */
  readonly heldBytesPerTransactionMax: number;
  /** Rows one transaction may read, by key, range and index together. */
  readonly rowsReadPerTransactionMax: number;
  /** Operations of one transaction that wait for an earlier one. */
  readonly operationsQueuedMax: number;
  /** Last answers of a transaction kept for repeated operation numbers. */
  readonly answersKeptMax: number;
  /** Transactions in one flush. */
  readonly flushTransactionsMax: number;
  /** Encoded bytes of one flush and so of one transaction, index rows included; a log entry holds 1 MiB. */
  readonly flushBytesMax: number;
  /** Transactions that wait for a flush; above it OVERLOADED. */
  readonly commitQueueMax: number;
  /** Logged flushes not yet applied at quorum; no further flush is appended above it. */
  readonly pendingFlushesMax: number;
  /** Milliseconds without a further append of the group until its mark of what is decided goes along with another group's. */
  readonly markIdleMs: number;
  /** Until it goes alone. */
  readonly markAloneMs: number;
  /** Mutations in one RowStore.apply. */
  readonly applyMutationsMax: number;
  /** Outcomes kept in memory; older ones are read from their rows. */
  readonly recentOutcomesMax: number;
  /** Committed rows kept in memory after they are applied; their bytes are bounded for all groups together (`CACHED_ROW_BYTES_MAX`). */
  readonly cachedRowsMax: number;
  /** Keys in one RowStore.read. */
  readonly readKeysMax: number;
  /** Applied flushes that no append has told the log of, until a trim does. */
  readonly trimEveryFlushes: number;
  /** Milliseconds after an apply without a further append until the log learns of it alone, where the owner applies. */
  readonly trimIdleMs: number;
  /** Bytes of them until a trim does; replicas keep 3 MiB of untrimmed entries. */
  readonly trimEveryBytes: number;
  /** How long a flush waits for more commits where appends are long, at most; 0: not at all (`Gathering`). */
  readonly gatherMsMax: number;
  /** Raises tried before a takeover gives up. */
  readonly raiseAttemptsMax: number;
  /** Longest wait for companions a client may ask for (TXD10). */
  readonly commitDelayMsMax: number;
}

export const TRANSACTION_LIMITS: TransactionLimits = {
  openTransactionsMax: 10_000,
  writesPerTransactionMax: 5_000,
  bytesPerTransactionMax: 512 * 1024,
  heldBytesPerTransactionMax: 8 * 1024 * 1024,
  rowsReadPerTransactionMax: 20_000,
  operationsQueuedMax: 64,
  answersKeptMax: 4,
  flushTransactionsMax: 512,
  flushBytesMax: 768 * 1024,
  commitQueueMax: 8_192,
  pendingFlushesMax: 32,
  markIdleMs: 2,
  markAloneMs: 10,
  applyMutationsMax: 5_000,
  recentOutcomesMax: 32_768,
  cachedRowsMax: 20_000,
  readKeysMax: 500,
  trimEveryFlushes: 16,
  trimIdleMs: 20,
  trimEveryBytes: 768 * 1024,
  gatherMsMax: 50,
  raiseAttemptsMax: 10,
  commitDelayMsMax: 1_000,
};

/** Approximate bytes of writes from which a commit counts as large. */
export const LARGE_COMMIT_BYTES = 32 * 1024;
/** Bytes of large commits on their way through one coordinator, at most; above it OVERLOADED. */
export const LARGE_COMMITS_BYTES_MAX = 512 * 1024;
/** Large commits that take longer lower that limit to this share, down to LARGE_COMMIT_BYTES; quicker ones raise it again. */
export const LARGE_COMMITS_TARGET_MS = 250;
export const LARGE_COMMITS_LESS = 0.7;
/** When a refused one may be repeated. */
export const LARGE_RETRY_MS_MIN = 100;
export const LARGE_RETRY_MS_MAX = 5_000;

/** Rows of a range that `lockNext` reads together while it looks for one that is free. */
export const LOCK_NEXT_PAGE_ROWS = 32;

/** Open transactions that the status of a coordinator names, and locked keys of each. */
export const STATUS_TRANSACTIONS_MAX = 100;
export const STATUS_KEYS_MAX = 10;

/** Bytes held by all open transactions of one coordinator, shared fairly by callers and their connections; above it OVERLOADED. */
export const HELD_BYTES_MAX = 64 * 1024 * 1024;
/** Bytes of one transaction that are not counted among them, since `openTransactionsMax` bounds them; most transactions hold less. */
export const HELD_BYTES_FREE = 4 * 1024;
/** Bytes are taken from the shared count in steps, so that it costs little. */
export const HELD_BYTES_STEP = 16 * 1024;
/** Bytes of the rows of one page of a range or an index: it ends before the row that would pass them, so that an answer takes it. */
export const PAGE_ROW_BYTES_MAX = 1024 * 1024;
/** When a transaction that found no memory may be repeated. */
export const HELD_RETRY_MS = 250;

/** Approximate bytes of the committed rows that all groups of one coordinator keep in memory after they are applied. */
export const CACHED_ROW_BYTES_MAX = 64 * 1024 * 1024;

/** Ids whose outcomes are kept after their slices of time were read; whole slices go, the oldest first. */
export const OUTCOME_IDS_KEPT_MAX = 65_536;
/**
 * Bytes that an outcome keeps of a refusal: which rows failed, and the rows themselves while they fit. 1000 conditions and 1000 writes that all
 * fail take 3 bytes each, so all of them are named.
 */
export const REFUSAL_BYTES_MAX = 8 * 1024;
/** Bytes of refusals that the memory of a group's outcomes holds; older outcomes are then read from their rows. */
export const REFUSALS_BYTES_MAX = 4 * 1024 * 1024;
/** Outcome rows in one page of a slice: each has the outcomes of a flush. */
export const OUTCOME_PAGE_ROWS = 100;

/** Deadlines, idle transactions and lost sessions are looked at this often, so they fire at most this late. */
export const TICK_MS = 20;
/** How long a transaction waits for its client after the session broke. */
export const SESSION_GRACE_MS = 1_000;
/** A commit or lock wait whose caller's deadline is this near is answered while the answer can still arrive. */
export const ANSWER_MARGIN_MS = 50;
/** Appends that take at least so long are worth a wait for more commits, of what they take so much. */
export const GATHER_FROM_APPEND_MS = 20;
export const GATHER_APPEND_SHARE = 0.5;
/** Pauses before an append, apply or verify with unknown outcome is repeated. */
export const REPEAT_BACKOFF: BackoffLimits = { initialMs: 10, maxMs: 500 };
/** A master that hands its group over looks this often whether anything is still open. */
export const FINISH_POLL_MS = 2;

assert(TRANSACTION_LIMITS.heldBytesPerTransactionMax * 4 <= HELD_BYTES_MAX, "one transaction leaves memory to others");
assert(
  TRANSACTION_LIMITS.answersKeptMax * PAGE_ROW_BYTES_MAX * 2 <= TRANSACTION_LIMITS.heldBytesPerTransactionMax,
  "pages kept for repeats take half of what a transaction holds at most",
);
assert(TRANSACTION_LIMITS.flushBytesMax < ENTRY_BYTES_MAX, "a log entry holds the largest flush");
assert(TRANSACTION_LIMITS.trimEveryBytes + ENTRY_BYTES_MAX <= TAIL_BYTES_MAX, "the log is trimmed before a replica's tail is full");
assert(TRANSACTION_LIMITS.markIdleMs < TRANSACTION_LIMITS.markAloneMs, "a mark leaves with another group's append before it leaves alone");
assert(TICK_MS < ANSWER_MARGIN_MS, "a call whose deadline is near is answered before it");

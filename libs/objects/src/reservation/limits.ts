/** Sequences of one block (OGD6): one row commit and one synced record each. */
export const BLOCK_NAMES = 1024;
/** The next block is fetched when this share of one is left. */
export const BLOCK_FETCH_SHARE = 1 / 2;
/** Takers that wait for a block; one more is OVERLOADED. */
export const TAKERS_WAITING_MAX = 10_000;
/** How long a taker waits for a block. */
export const TAKE_WAIT_MS = 10_000;
/** Names that are not resolved; one more is OVERLOADED. */
export const UNRESOLVED_NAMES_MAX = 1_000_000;
/** How often a gateway writes its epoch row: the low-water mark, and a sign that it lives. */
export const EPOCH_HEARTBEAT_MS = 10_000;
/** Pause before a reservation is tried again. */
export const RESERVE_RETRY_MS = 200;
/** How often a lost answer is looked up before the call fails. */
export const EPOCH_ROW_ATTEMPTS = 5;
/** Epoch numbers tried when others take them at the same time. */
export const ACQUIRE_ATTEMPTS = 100;

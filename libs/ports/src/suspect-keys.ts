import type { ConcordError } from "@concord/runtime";

/** Keys from `from` on and below `to`, bytewise. */
export interface SuspectRange {
  readonly from: Uint8Array;
  readonly to: Uint8Array;
}

/**
 * Keys whose newest value, or deletion, may have been in a damaged block: what the store has of them may be older than what was acknowledged. Their
 * reads are refused until the ranges are dropped.
 */
export interface SuspectKeys {
  /** Ascending, disjoint. Empty: no key is suspect. Durable: the next opening has them too, unless `drop` has resolved. */
  readonly ranges: readonly SuspectRange[];
  /**
   * CORRUPT_DATA (applied: no), with the range and what to do, when a read of one of `keys` is refused: `get` and `getMany` reject with it, `peek`
   * answers "ask". Undefined: all may be read. A runner of steps asks before it loads, for each step by itself. `write` refuses no key.
   */
  refusal(keys: readonly Uint8Array[]): ConcordError | undefined;
  /**
   * Begins to heal: deletes every key of the ranges, so that nothing older is left below what is copied from others, and from then on refuses no read.
   * Nothing that this process reads may be answered to a client before `drop` has resolved: a key that is absent may exist elsewhere. Called
   * before anything else of the store is loaded or written. `ranges` stays as it is, and after a crash healing begins again.
   */
  clear(): Promise<void>;
  /**
   * Ends healing, or accepts what is there: resolves when a checkpoint without the ranges is durable, and holds every write that had resolved
   * before the call, those of `derived` too.
   */
  drop(): Promise<void>;
}

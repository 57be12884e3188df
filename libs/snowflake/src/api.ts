/** Gives out 64-bit time-ordered ids (GUIDs), each one larger than the one before (OG5, OGD5). */
export interface GuidSource {
  /** CLOCK_UNUSABLE when the clock stands too far behind the ids already made. */
  next(): Promise<bigint>;
}

/** Consecutive ids. */
export interface IdRange {
  readonly first: bigint;
  readonly count: number;
}

/** A source for many ids at a time. */
export interface IdSource extends GuidSource {
  readonly workerId: number;
  /**
   * 1 to TAKE_COUNT_MAX ids, in ascending ranges. CLOCK_UNUSABLE; EPOCH_FENCED when the worker id belongs to another source, for good; what
   * raising the mark failed with. CANCELLED when the signal was aborted while it waited. The ids of a
   * failed call are never given out.
   */
  take(count: number, signal?: AbortSignal): Promise<readonly IdRange[]>;
}

/** Where a worker's high-water mark is kept: no id of a millisecond at or above it was ever given out. */
export interface HighWaterMark {
  /** Milliseconds since the Unix epoch; undefined: none was ever given out. */
  load(): Promise<number | undefined>;
  /** Durable when it resolves; called ahead of the ids, not for each. Rejects when the worker id belongs to another source by now (EPOCH_FENCED). */
  raise(toMs: number): Promise<void>;
}

/** Gives out 64-bit time-ordered ids (GUIDs), each one larger than the one before (OG5, OGD5). */
export interface GuidSource {
  /** CLOCK_SKEW when the clock stands too far behind the ids already made. */
  next(): Promise<bigint>;
}

/** Where a worker's high-water mark is kept: no id of a millisecond at or above it was ever given out. */
export interface HighWaterMark {
  /** Milliseconds since the Unix epoch; undefined: none was ever given out. */
  load(): Promise<number | undefined>;
  /** Durable when it resolves; called ahead of the ids, not for each. Rejects when the worker id belongs to somebody else by now (EPOCH_FENCED). */
  raise(toMs: number): Promise<void>;
}

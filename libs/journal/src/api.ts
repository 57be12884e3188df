/** One record as it was appended. Its sequence is the journal's count of units before it. */
export interface JournalRecord {
  readonly kind: "record" | "checkpoint";
  readonly sequence: bigint;
  /** Units the record stands for: the next record's sequence is `sequence + count`. */
  readonly count: number;
  readonly payload: Uint8Array;
}

/**
 * A local append log (OGD8). Appends are durable when they resolve and readable before they resolve to nobody; all appends that wait
 * while a sync runs go into the next one. Sequences are consecutive and survive restarts.
 */
export interface Journal {
  /** Sequence of the oldest record that is kept. */
  readonly firstSequence: bigint;
  /** Sequence the next record gets. */
  readonly nextSequence: bigint;
  /** One behind the last durable record: what `read` gives out. */
  readonly durableSequence: bigint;
  /** Resolves with the record's sequence when it is durable. STORE_FAILED (applied: unknown) when a sync failed: it may be there after a restart. */
  append(payload: Uint8Array, count?: number): Promise<bigint>;
  /**
   * Appends a checkpoint made by `snapshot`, which is called in the same turn in which the record gets its sequence: nothing is appended
   * between the snapshot and the record (OGD7). Segments wholly before the checkpoint may be dropped with `trim` once it is durable.
   */
  checkpoint(snapshot: () => Uint8Array): Promise<bigint>;
  /** Durable records in order, beginning with the one that holds `from`. Ends at the end that was durable when it was called. */
  read(from: bigint): AsyncIterable<JournalRecord>;
  /** All records from the newest backwards, back to the newest checkpoint and beyond it as far as the caller goes on asking (OG8). */
  readBackward(): AsyncIterable<JournalRecord>;
  /** Drops whole segments of which every record is before `sequence`. Resolves with the new firstSequence. */
  trim(sequence: bigint): Promise<bigint>;
  /** Bytes of all segments. */
  readonly sizeBytes: number;
  close(): Promise<void>;
}

/** What opening found besides records. */
export interface JournalFindings {
  /** Bytes after the last whole record of the last segment: a write that was never acknowledged. Cut off. */
  readonly tornBytes: number;
  /** Segments or spans that are neither records nor a torn tail: kept under another name and reported; a scrub must follow. */
  readonly quarantined: readonly { readonly name: string; readonly reason: string }[];
}

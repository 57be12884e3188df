import { assert } from "@concord/runtime";

/** What a journal holds at most, and how it writes. */
export interface JournalLimits {
  /** A segment ends before the group that would pass it. */
  readonly segmentBytes: number;
  /**
   * Zeros in the next segment's file, durable before it is used: a sync of records then changes no size and no blocks, which costs the file
   * system a sync of its own. At most `segmentBytes`; 0: files grow. A journal takes up to twice this on the disk beside its records.
   */
  readonly preparedBytes: number;
  /** Bytes of all segments: appends beyond are refused (STORAGE_FULL), checkpoints are not (OGD13). */
  readonly journalBytes: number;
  /** Payload of one record. */
  readonly recordBytes: number;
  /** A group ends with the record that passes it. */
  readonly groupBytes: number;
  /** Payloads that wait for a group: appends beyond are refused (OVERLOADED). */
  readonly queueBytes: number;
}

const MIB = 1024 * 1024;

export const JOURNAL_LIMITS: JournalLimits = {
  segmentBytes: 16 * MIB,
  preparedBytes: 0,
  journalBytes: 64 * MIB,
  recordBytes: MIB,
  groupBytes: MIB,
  queueBytes: 16 * MIB,
};

/** Offsets in a segment are 32 bits; a segment may pass `segmentBytes` by one group. */
export const SEGMENT_BYTES_MAX = 1024 * MIB;
/** Bytes between two entries of a segment's index, and what one read of a reader asks for. */
export const WINDOW_BYTES = 64 * 1024;
/** Zeros of one write and sync of a file that is prepared: what records that are synced meanwhile wait for. */
export const ZEROS_PER_SYNC_BYTES = MIB;
/** A journal prepares its first file once it has written this part of one. */
export const PREPARED_AFTER_PART = 8;
/** Segments whose files stay open after a read. */
export const OPEN_SEGMENTS_MAX = 16;
/** A payload at least this long is handed to the disk as it is, not copied beside its header. */
export const COPIED_PAYLOAD_BYTES = 4096;

export function journalLimits(chosen: Partial<JournalLimits> = {}): JournalLimits {
  const all = { ...JOURNAL_LIMITS, ...chosen };
  const limits = { ...all, preparedBytes: Math.min(all.preparedBytes, all.segmentBytes) };
  for (const [name, value] of Object.entries(limits)) {
    assert(Number.isSafeInteger(value) && (value > 0 || name === "preparedBytes"), `${name} is a positive integer`);
  }
  assert(limits.preparedBytes >= 0, "preparedBytes is not negative");
  const longest = limits.segmentBytes + limits.groupBytes + limits.recordBytes;
  assert(longest <= SEGMENT_BYTES_MAX, `a segment of ${longest} bytes is within ${SEGMENT_BYTES_MAX}`);
  return limits;
}

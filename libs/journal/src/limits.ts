import { assert } from "@concord/runtime";

/** What a journal holds at most, and how it writes. */
export interface JournalLimits {
  /** A segment ends before the group that would pass it. */
  readonly segmentBytes: number;
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
  journalBytes: 64 * MIB,
  recordBytes: MIB,
  groupBytes: MIB,
  queueBytes: 16 * MIB,
};

/** Offsets in a segment are 32 bits; a segment may pass `segmentBytes` by one group. */
export const SEGMENT_BYTES_MAX = 1024 * MIB;
/** Bytes between two entries of a segment's index, and what one read of a reader asks for. */
export const WINDOW_BYTES = 64 * 1024;
/** Segments whose files stay open after a read. */
export const OPEN_SEGMENTS_MAX = 16;
/** A payload at least this long is handed to the disk as it is, not copied beside its header. */
export const COPIED_PAYLOAD_BYTES = 4096;

export function journalLimits(chosen: Partial<JournalLimits> = {}): JournalLimits {
  const limits = { ...JOURNAL_LIMITS, ...chosen };
  for (const [name, value] of Object.entries(limits)) assert(Number.isSafeInteger(value) && value > 0, `${name} is a positive integer`);
  const longest = limits.segmentBytes + limits.groupBytes + limits.recordBytes;
  assert(longest <= SEGMENT_BYTES_MAX, `a segment of ${longest} bytes is within ${SEGMENT_BYTES_MAX}`);
  return limits;
}

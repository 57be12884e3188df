import type { JournalLimits } from "@concord/journal";

const MIB = 1024 * 1024;

export interface StoreLimits {
  /** A checkpoint begins once this much was journalled since the last one, or is dirty. */
  readonly checkpointBytes: number;
  /** A checkpoint begins at latest this long after the first write since the last one, milliseconds. */
  readonly checkpointAgeMs: number;
  /** Writes wait for the end of a checkpoint while this much was journalled since the last one, or is dirty. */
  readonly dirtyBytesMax: number;
  /** Entries of one read of the scan while the store serves: some 2 ms of the event loop. */
  readonly scanEntries: number;
  /** All that the backing store holds is read and compared with the sums, while the store serves, once in so long. */
  readonly scanEveryMs: number;
  readonly journal: Partial<JournalLimits>;
}

export const STORE_LIMITS: StoreLimits = {
  checkpointBytes: 24 * MIB,
  checkpointAgeMs: 5_000,
  dirtyBytesMax: 64 * MIB,
  scanEntries: 1_024,
  scanEveryMs: 7 * 24 * 3_600_000,
  // Holds dirtyBytesMax and one record beyond it: writes reach dirtyBytesMax before they fill the journal.
  journal: {
    segmentBytes: 8 * MIB,
    preparedBytes: 4 * MIB,
    journalBytes: 512 * MIB,
    recordBytes: 64 * MIB,
    groupBytes: MIB,
    queueBytes: 256 * MIB,
  },
};

/** Keys that were written before and whose image in the backing store is known without a read, as a checksum each; bytes of the keys, and of what is beside one. */
export const KNOWN_KEYS = { entriesMax: 32_768, bytesMax: 8 * MIB };
export const KNOWN_KEY_BYTES = 96;
/** Keys that the filter over the backing store has space for at least, and its size: some 40 M keys that were put since opening. */
export const FILTER_KEYS_MIN = 8_192;
export const FILTER_BYTES_MAX = 64 * MIB;
/** New keys that one range puts in order before it looks at those that are not in order yet: some 2 ms. */
export const ORDERED_KEYS_PER_RANGE = 1_024;
/** Keys of one read of the backing store: their values, up to a journal record each, are in memory together. */
export const READ_KEYS_PER_CALL = 32;
/** Keys of one batch to the backing store, and of one record that says what a checkpoint is going to write. */
export const CHECKPOINT_KEYS_PER_CALL = 1_024;
/** Keys that a checkpoint prepares without a pause for the event loop: some 2 ms. */
export const CHECKPOINT_KEYS_PER_TURN = 1_024;
/** A batch to the backing store takes no further value once it has this size. */
export const CHECKPOINT_BATCH_BYTES = 256 * 1024;
/** Entries of one read of the scan at opening, and their bytes before the last of them. */
export const OPENING_SCAN_PAGE = { entries: 8_192, bytes: MIB };
/** Keys whose checksums wait for one write to the file of keys while a scan makes it; bytes of one read of it at opening; its largest size. */
export const KEYS_FILE_BUFFER_KEYS = 16_384;
export const KEYS_FILE_READ_BYTES = MIB;
export const KEYS_FILE_BYTES_MAX = 256 * MIB;
/**
 * The same of one read while the store serves. That scan begins this long after the opening, and rests after each read so many times as long
 * as the read took, and this long at least: it takes a tenth of one core and leaves the disk to others.
 */
export const SERVING_SCAN_PAGE_BYTES = 128 * 1024;
export const SERVING_SCAN_DELAY_MS = 2_000;
export const SERVING_SCAN_PAUSE_MS = 4;
export const SERVING_SCAN_REST_FACTOR = 9;
/** Keys are shorter: what a scan takes for the end of the key space. */
export const KEY_BYTES_MAX = 64 * 1024;
/** One page of the keys that healing deletes, a record of the journal. */
export const CLEARED_PAGE = { limit: 1_024, bytesMax: MIB };
/** Suspect ranges of one checkpoint file, encoded: it is read as a whole at each opening. More are joined, and refuse keys between them. */
export const SUSPECT_BYTES_MAX = 32 * 1024;

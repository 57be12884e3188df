import type { JournalLimits } from "@concord/journal";

const MIB = 1024 * 1024;
const GIB = 1024 * MIB;

/** How much the log keeps. What is not acknowledged is always kept. */
export interface Retention {
  /** Bytes of a partition's acknowledged input that are kept, for audits. */
  readonly inputBytes: number;
  /** Bytes of a partition's output; older segments go, but those that the owner's window needs (DDD10). */
  readonly outputBytes: number;
  /** Output written longer ago than this goes, by whole segments, but those that the owner's window needs. */
  readonly outputMs: number;
  /** Bytes of a partition's dead letters. */
  readonly deadLetterBytes: number;
}

export const RETENTION: Retention = {
  inputBytes: 64 * MIB,
  outputBytes: Number.POSITIVE_INFINITY,
  outputMs: Number.POSITIVE_INFINITY,
  deadLetterBytes: GIB,
};

export interface EmbeddedLogLimits {
  /** Bytes of a partition's input; appends beyond are refused with OVERLOADED until some is acknowledged. */
  readonly inputBytes: number;
  /** Bytes of appends that wait for a sync, per partition; beyond: OVERLOADED. */
  readonly waitingBytes: number;
  /** Bytes of one append. */
  readonly appendBytes: number;
  /** Bytes of one publication: output, dead letters and rerouted together. */
  readonly publicationBytes: number;
  readonly segmentBytes: number;
}

export const EMBEDDED_LOG_LIMITS: EmbeddedLogLimits = {
  inputBytes: 4 * GIB,
  waitingBytes: 32 * MIB,
  appendBytes: 8 * MIB,
  publicationBytes: 64 * MIB,
  segmentBytes: 32 * MIB,
};

/** Appended input that stays in memory until the owner has read it: of one partition, and of all together. Beyond it is read from disk. */
export const RECENT_TOPIC_BYTES_MAX = 4 * MIB;
export const RECENT_BYTES_MAX = 32 * MIB;
export const PARTITIONS_MAX = 1024;
/** Retention is looked at once per segment, and at least this often while something is published. */
export const RETENTION_EVERY_MS = 60_000;
/** Retention is ours, not the journal's. */
const JOURNAL_BYTES = Number.MAX_SAFE_INTEGER;

export function inputJournalLimits(limits: EmbeddedLogLimits): JournalLimits {
  const { segmentBytes, waitingBytes, appendBytes } = limits;
  return {
    segmentBytes,
    preparedBytes: 0,
    journalBytes: JOURNAL_BYTES,
    recordBytes: appendBytes,
    groupBytes: MIB,
    queueBytes: waitingBytes,
  };
}

export function outputJournalLimits({ segmentBytes, publicationBytes }: EmbeddedLogLimits): JournalLimits {
  return {
    segmentBytes,
    preparedBytes: 0,
    journalBytes: JOURNAL_BYTES,
    recordBytes: publicationBytes,
    groupBytes: MIB,
    queueBytes: publicationBytes,
  };
}

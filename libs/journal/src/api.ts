import type { Checksum, ConcordError, Disk, Log, Metrics, Random } from "@concord/runtime";
import type { JournalLimits } from "./limits.ts";

/** One record as it was appended. Its sequence is the journal's count of units before it. */
export interface JournalRecord {
  readonly kind: "record" | "checkpoint";
  readonly sequence: bigint;
  /** Units the record stands for: the next record's sequence is `sequence + count`. */
  readonly count: number;
  /** A view of what was read: copy what is kept long. */
  readonly payload: Uint8Array;
}

/**
 * A local append log (OGD8). Appends are durable when they resolve and never readable before they resolve; all appends that wait
 * while a sync runs go into the next one. Sequences are consecutive and survive restarts.
 */
export interface Journal {
  /** Sequence of the oldest record that is kept. */
  readonly firstSequence: bigint;
  /** Sequence the next record gets, if all that wait become durable. */
  readonly nextSequence: bigint;
  /** One behind the last durable record: what `read` gives out. */
  readonly durableSequence: bigint;
  /** Set when it was opened with `readsDamaged` and damage was found: the journal is only read. */
  readonly damage: ConcordError | undefined;
  /** Stopped: a sync failed (or the new segment after one); appends are refused with STORE_FAILED, reads go on. Open it again. */
  readonly isStopped: boolean;
  /**
   * Resolves with the record's sequence when it is durable. The payload must not change meanwhile. `count` may be 0: the record takes no
   * unit and shares its sequence with the next one.
   * STORE_FAILED with `applied` unknown when its sync failed: it may be there after a restart; with `no`: it was not written.
   * STORAGE_FULL (applied no): the disk (without `spacePause`) or the journal is full. OVERLOADED: too much waits already, or no descriptor (without `spacePause`). LIMIT_EXCEEDED: too long.
   */
  append(payload: Uint8Array, count?: number): Promise<bigint>;
  /**
   * Appends a checkpoint made by `snapshot`, which is called in the same turn in which the record gets its place: nothing is appended
   * between the snapshot and the record (OGD7). It takes one unit. Segments wholly before the checkpoint may be dropped with `trim`
   * once it is durable.
   */
  checkpoint(snapshot: () => Uint8Array): Promise<bigint>;
  /**
   * Durable records in order, beginning with the one that holds `from` (those without units at `from` may come before it). Ends at the
   * end that was durable when it was called. OFFSET_OUT_OF_RANGE when `from` is below firstSequence or above durableSequence.
   * CORRUPT_DATA at damage that opening did not report; reported damage shows as a jump of sequences.
   */
  read(from: bigint): AsyncIterable<JournalRecord>;
  /** All records from the newest backwards, back to the newest checkpoint and beyond it as far as the caller goes on asking (OG8). */
  readBackward(): AsyncIterable<JournalRecord>;
  /** Drops whole segments of which every record is before `sequence`. Resolves with the new firstSequence. */
  trim(sequence: bigint): Promise<bigint>;
  /** Where the segments begin, oldest first, and their sizes: what retention by size decides on. */
  readonly segments: readonly { readonly firstSequence: bigint; readonly bytes: number }[];
  /** Ordinal of the oldest segment: grows whenever one is removed, also where empty ones of several owners have one first sequence. 0: there is none. */
  readonly firstOrdinal: number;
  /** Bytes of all segments. */
  readonly sizeBytes: number;
  /** The journal is going to be closed: appends that wait for space or a descriptor reject with STORAGE_FULL or OVERLOADED. */
  refuseWaiting(): void;
  /** Waits for what was appended, then closes the files. Appends after it are refused (DRAINING). */
  close(): Promise<void>;
}

/** What opening found besides records. */
export interface JournalFindings {
  /** Bytes after the last whole record of the last segment: a write that was never acknowledged. Cut off. */
  readonly tornBytes: number;
  /** Copies of torn writes in which a later record was whole: not damage, since they were of one write, but worth a look. */
  readonly tornCopies: readonly string[];
  /**
   * Files behind the last segment that were no longer than a header and had no sound one. Removed: a crash in the making of a segment
   * leaves them, and nothing is lost; a file whose contents the disk lost looks the same.
   */
  readonly lostSegments: readonly string[];
  /** Segments or spans that are neither records nor a torn tail: kept under another name, or as they are when `processedTo` passes them over. Reported. */
  readonly quarantined: readonly { readonly name: string; readonly reason: string }[];
}

export interface JournalOptions {
  readonly disk: Disk;
  /** The journal's own folder; made when it is absent. One process has it open at a time: its caller sees to that. */
  readonly folder: string;
  /** CRC32C. Must take the checksum of earlier bytes as its second argument. */
  readonly checksum: Checksum;
  /** Makes the ids of segments. */
  readonly random: Random;
  readonly limits?: Partial<JournalLimits>;
  /**
   * Findings that are damage make opening fail with CORRUPT_DATA, each time: all are reported, and nothing on the disk changes. Default
   * false: damage is quarantined.
   */
  readonly strict?: boolean;
  /**
   * What another file proves: records before this sequence were durable, and are not needed any more. Damage that lies wholly among them is
   * reported and passed over. A journal that ends before this sequence has lost its end: that is reported too, and it goes on at this sequence.
   */
  readonly processedTo?: bigint;
  /**
   * With `strict`: damage does not make opening fail. Nothing on the disk changes, sound records are read, and appends are refused with
   * CORRUPT_DATA (`Journal.damage`). Default false.
   */
  readonly readsDamaged?: boolean;
  /**
   * Another process may still have the journal's files open and write to them. Opening cuts nothing off, and a new segment, which says where
   * the one before it ended, is durable before it resolves: what the other process writes from now on lies behind that end, where no reader
   * looks (I9). The caller makes sure that the other process answers nothing any more. Default false.
   */
  readonly takesOver?: boolean;
  /**
   * What opening checks: every segment, or (for journals of many GiB) the last one and all headers only; damage elsewhere is then met
   * by the reader, as CORRUPT_DATA. Default "all".
   */
  readonly verify?: "all" | "last";
  /**
   * After a failed sync: called for the record that begins the next segment, with everything that is unresolved; appends go on behind it
   * (OGD8). Without it the journal stops.
   */
  readonly onSyncFailed?: () => Uint8Array;
  /**
   * Called while it opens, before anything is cut off or removed that may have held records (`tornBytes`, `lostSegments`): what it makes
   * durable comes before the cut in any crash. When it rejects, opening fails and nothing was cut.
   */
  readonly onCut?: (cut: Pick<JournalFindings, "tornBytes" | "lostSegments">) => Promise<void>;
  /**
   * A pause between two tries of a write that finds no space on the disk, or no descriptor: appends wait in their order until there is some.
   * Without it they are refused with STORAGE_FULL or OVERLOADED, and later ones may be written.
   */
  readonly spacePause?: () => Promise<void>;
  /** Called once when the journal stops: it takes no record until it is opened again. */
  readonly onStopped?: (cause: unknown) => void;
  readonly log?: Log;
  readonly metrics?: Metrics;
  readonly failpoint?: (name: string) => void;
}

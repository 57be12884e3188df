import { compareBytes } from "@concord/codec";
import type { KeyRange, KeyValueEntry } from "@concord/ports";
import { openRow, ROWS_NAMESPACE, storedRowKey, type OnRow } from "@concord/quorum";
import { ConcordError, type Checksum } from "@concord/runtime";
import { SEGMENT_BYTES, SEGMENT_LEAVES, SEGMENT_ROWS } from "./limits.ts";

/** A range of row keys (without namespace); `to` is exclusive. */
export interface Segment {
  readonly from: Uint8Array;
  readonly to: Uint8Array;
}

/** The rows of a segment as one sum per leaf. Equal sums: equal rows, but for one case in 2^32 per row that differs. */
export interface SegmentSums {
  /** How far it was read. */
  readonly to: Uint8Array;
  readonly leaves: readonly number[];
  readonly rows: number;
  readonly bytes: number;
  /** Rows that fail their check, which are in no leaf. */
  readonly damaged: number;
}

export interface SegmentRow {
  readonly key: Uint8Array;
  /** As it is stored. */
  readonly value: Uint8Array;
}

export interface SegmentRows {
  readonly to: Uint8Array;
  readonly rows: readonly SegmentRow[];
}

export interface LocalRowsOptions {
  /** Sees every step submitted before, answers only what is on disk. */
  readonly reader: { range(range: KeyRange): Promise<KeyValueEntry[]> };
  readonly checksum: Checksum;
  /** A stored row fails its check: its stored key. */
  readonly onDamaged: (storedKey: Uint8Array) => void;
  readonly segmentRows?: number;
  /** Gets the size of each row that is read for its sum. */
  readonly onRow?: OnRow;
}

/** Behind every row key. */
export const LAST_KEY = new Uint8Array(1).fill(0xff);
const FIRST_STORED_KEY = Uint8Array.of(ROWS_NAMESPACE);
const BEHIND_STORED_KEYS = Uint8Array.of(ROWS_NAMESPACE + 1);

/** This node's rows, to be compared with those of a peer. Reads at most `slack` segments' worth at a time. */
export class ComparedRows {
  readonly #options: LocalRowsOptions;

  constructor(options: LocalRowsOptions) {
    this.#options = options;
  }

  /**
   * Sums the rows that are merged by timestamp. Rows that follow from a group's log are not compared: they follow by the log. What is read
   * here and what the peer reads may be different moments: rows only move forward, so equal sums are equal rows.
   */
  async sums(segment: Segment, slack: number): Promise<SegmentSums> {
    const leaves = Array.from({ length: SEGMENT_LEAVES }, () => 0);
    const { entries, to, bytes } = await this.#read(segment, slack);
    let damaged = 0;
    const { onRow } = this.#options;
    for (const { key, value } of entries) {
      if (value[0] !== MERGED_VERSION) continue;
      onRow?.(key, value.length);
      if (!this.#isSound(key, value)) {
        damaged += 1;
        continue;
      }
      const keyChecksum = this.#options.checksum(key.subarray(1)) >>> 0;
      const leaf = keyChecksum % SEGMENT_LEAVES;
      leaves[leaf] = (leaves[leaf]! + sumOf(keyChecksum, value)) % SUMS;
    }
    return { to, leaves, rows: entries.length, bytes, damaged };
  }

  /** The rows of some leaves, those that follow from a log among them: so a peer that has a row merged sees that this one has it not. */
  async rows(segment: Segment, leaves: ReadonlySet<number>, slack: number): Promise<SegmentRows> {
    const { entries, to } = await this.#read(segment, slack);
    const wanted = entries.filter(({ key, value }) => {
      return leaves.has((this.#options.checksum(key.subarray(1)) >>> 0) % SEGMENT_LEAVES) && this.#isSound(key, value);
    });
    return { to, rows: wanted.map(({ key, value }) => ({ key: key.subarray(1), value })) };
  }

  async #read({ from, to }: Segment, slack: number): Promise<{ entries: readonly KeyValueEntry[]; to: Uint8Array; bytes: number }> {
    const bounds = {
      from: from.length === 0 ? FIRST_STORED_KEY : storedRowKey(from),
      to: compareBytes(to, LAST_KEY) === 0 ? BEHIND_STORED_KEYS : storedRowKey(to),
    };
    if (compareBytes(bounds.from, bounds.to) >= 0) throw new ConcordError("MALFORMED_REQUEST", "a segment ends behind its beginning");
    const [limit, bytesMax] = [slack * (this.#options.segmentRows ?? SEGMENT_ROWS), slack * SEGMENT_BYTES];
    const entries = await this.#options.reader.range({ ...bounds, limit, bytesMax });
    const bytes = entries.reduce((sum, { key, value }) => sum + key.length + value.length, 0);
    const last = entries.at(-1);
    if (last === undefined || (entries.length < limit && bytes <= bytesMax)) return { entries, to, bytes };
    return { entries, to: Uint8Array.of(...last.key.subarray(1), 0), bytes };
  }

  #isSound(key: Uint8Array, value: Uint8Array): boolean {
    try {
      openRow(value, this.#options.checksum);
      return true;
    } catch (thrown) {
      if (!(thrown instanceof ConcordError) || thrown.code !== "CORRUPT_DATA") throw thrown;
      this.#options.onDamaged(key);
      return false;
    }
  }
}

/** Of a row that is merged by timestamp, as quorum stores it. */
const MERGED_VERSION = 1;
const SUMS = 2 ** 52;

/** By the seal's own checksum of the image, which was verified, and the key's. */
function sumOf(keyChecksum: number, value: Uint8Array): number {
  const image = new DataView(value.buffer, value.byteOffset).getUint32(1);
  return image * 2 ** 20 + ((keyChecksum ^ Math.imul(value.length, 0x9e3779b1)) >>> 12);
}

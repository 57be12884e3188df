import { compareBytes } from "@concord/codec";
import type { BackingStore } from "@concord/ports";
import type { Checksum } from "@concord/runtime";
import { KEY_BYTES_MAX, OPENING_SCAN_PAGE } from "./limits.ts";
import { keyAfter } from "./merge-range.ts";
import { ABSENT, imageBehind, RangeSums, type RangeSum } from "./range-sums.ts";

const LAST_KEY = new Uint8Array(KEY_BYTES_MAX).fill(0xff);

export interface ScanLimits {
  readonly entries: number;
  readonly bytes: number;
}

/** What takes the checksum of every key. */
export interface ScannedKeys {
  add(keyChecksum: number): void;
  /** Keeps what it has in memory bounded. */
  write?(): Promise<void>;
}

/** Reads a backing store once, page by page: counts and sums of what it holds, and every key into a filter (I9). */
export class Scan {
  readonly sums = new RangeSums();
  readonly #backing: BackingStore;
  readonly #checksum: Checksum;
  readonly #keys: ScannedKeys;
  /** Keys below it were read; undefined: all were. */
  #from: Uint8Array | undefined = new Uint8Array();

  constructor(backing: BackingStore, checksum: Checksum, keys: ScannedKeys) {
    this.#backing = backing;
    this.#checksum = checksum;
    this.#keys = keys;
  }

  /** False when everything was read. */
  async readPage({ entries, bytes }: ScanLimits): Promise<boolean> {
    if (this.#from === undefined) return false;
    const page = await this.#backing.range({ from: this.#from, to: LAST_KEY, limit: entries, bytesMax: bytes });
    for (const { key, value } of page) {
      const keyChecksum = this.#checksum(key);
      this.#keys.add(keyChecksum);
      this.sums.change(key, ABSENT, imageBehind(keyChecksum, value, this.#checksum));
    }
    await this.#keys.write?.();
    const last = page.at(-1);
    this.#from = last && keyAfter(last.key);
    return last !== undefined;
  }

  /** A value was replaced between two pages: one that was read counts no longer, one that was not is going to be. */
  changed(key: Uint8Array, before: number, after: number): void {
    if (this.#from === undefined || compareBytes(key, this.#from) < 0) this.sums.change(key, before, after);
  }
}

/** Reads everything now. */
export async function scanAll(backing: BackingStore, checksum: Checksum, keys: ScannedKeys): Promise<RangeSums> {
  const scan = new Scan(backing, checksum, keys);
  while (await scan.readPage(OPENING_SCAN_PAGE));
  return scan.sums;
}

/** How many values there are. */
export function countOf(sums: readonly RangeSum[]): number {
  return sums.reduce((values, { count }) => values + count, 0);
}

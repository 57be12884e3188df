import type { BackingStore } from "@concord/ports";
import type { Checksum } from "@concord/runtime";
import { KEY_BYTES_MAX, SCAN_PAGE_BYTES, SCAN_PAGE_ENTRIES } from "./limits.ts";
import { keyAfter } from "./merge-range.ts";
import { KeyFilter } from "./key-filter.ts";
import { ABSENT, imageBehind, RangeSums, type RangeSum } from "./range-sums.ts";

/** What the backing store holds: counts and sums, and a filter of every key (I9). */
export interface Scanned {
  readonly sums: RangeSums;
  readonly filter: KeyFilter;
}

/** Reads everything once. `expected`: what is probably there. */
export async function scanSums(backing: BackingStore, checksum: Checksum, expected: readonly RangeSum[]): Promise<Scanned> {
  const sums = new RangeSums();
  const filter = new KeyFilter(expected.reduce((keys, { count }) => keys + count, 0));
  const to = new Uint8Array(KEY_BYTES_MAX).fill(0xff);
  let from: Uint8Array = new Uint8Array();
  for (;;) {
    const page = await backing.range({ from, to, limit: SCAN_PAGE_ENTRIES, bytesMax: SCAN_PAGE_BYTES });
    for (const { key, value } of page) {
      const keyChecksum = checksum(key);
      filter.add(keyChecksum);
      sums.change(key, ABSENT, imageBehind(keyChecksum, value, checksum));
    }
    const last = page.at(-1);
    if (last === undefined) return { sums, filter };
    from = keyAfter(last.key);
  }
}

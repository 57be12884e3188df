import type { BackingStore } from "@concord/ports";
import type { Checksum } from "@concord/runtime";
import { KEY_BYTES_MAX, SCAN_PAGE_BYTES, SCAN_PAGE_ENTRIES } from "./limits.ts";
import { keyAfter } from "./merge-range.ts";
import { ABSENT, imageOf, RangeSums } from "./range-sums.ts";

/** Reads everything once. */
export async function scanSums(backing: BackingStore, checksum: Checksum): Promise<RangeSums> {
  const sums = new RangeSums();
  const to = new Uint8Array(KEY_BYTES_MAX).fill(0xff);
  let from: Uint8Array = new Uint8Array();
  for (;;) {
    const page = await backing.range({ from, to, limit: SCAN_PAGE_ENTRIES, bytesMax: SCAN_PAGE_BYTES });
    for (const { key, value } of page) sums.change(key, ABSENT, imageOf(key, value, checksum));
    const last = page.at(-1);
    if (last === undefined) return sums;
    from = keyAfter(last.key);
  }
}

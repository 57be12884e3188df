import type { RowImage, RowPage, RowRange } from "@concord/ports";
import { imageBytes, liveRow, mergeImages } from "@concord/rows";
import { compareClustering, keyText } from "@concord/schema";
import type { CellValue } from "@concord/values";
import { assert } from "@concord/runtime";
import { PAGE_ROW_BYTES_MAX } from "./limits.ts";

export interface MergedPage {
  /** Images of live rows in reading direction; at most the range's limit, and one row or PAGE_ROW_BYTES_MAX. */
  readonly rows: readonly RowImage[];
  /** Clustering key of the last row, when more may follow. */
  readonly next: readonly CellValue[] | undefined;
}

export interface ChangedRow {
  readonly text: string;
  readonly image: RowImage;
}

/**
 * A range read with changed rows merged in (TX28): a change may add, alter or hide a row, so stored pages are read until the limit or
 * PAGE_ROW_BYTES_MAX is reached. `changes` are in the range and sorted in its direction.
 */
export async function readMergedRange(
  range: RowRange,
  changes: readonly ChangedRow[],
  readPage: (range: RowRange) => Promise<RowPage>,
): Promise<MergedPage> {
  const direction = range.reverse ? -1 : 1;
  assert(
    changes.every(
      ({ image }, at) => at === 0 || direction * compareClustering(changes[at - 1]!.image.key.clustering, image.key.clustering) < 0,
    ),
    "TX28: changes are in the range's order",
  );
  const rows: RowImage[] = [];
  let [at, bytes] = [0, 0];
  let after = range.after;
  for (;;) {
    assert(rows.length < range.limit, "a page is read for rows that are missing");
    const page = await readPage({ ...range, limit: range.limit - rows.length, ...(after === undefined ? {} : { after }) });
    const end = endOf(range, changes, at, page.next);
    const merged = mergePage(range, page.rows, changes.slice(at, end));
    assert(end >= at, "changes are taken once, in order");
    at = end;
    assert(page.next !== undefined || at === changes.length, "TX28: no change is left out after the last stored page");
    for (const image of merged) {
      bytes += imageBytes(image);
      const isFull = rows.length === range.limit || (rows.length > 0 && bytes > PAGE_ROW_BYTES_MAX);
      if (isFull) return { rows, next: rows.at(-1)!.key.clustering };
      rows.push(image);
    }
    if (page.next === undefined) return { rows, next: undefined };
    if (rows.length === range.limit) return { rows, next: rows.at(-1)!.key.clustering };
    after = page.next;
  }
}

/** Changes up to the end of a page; all of them when it was the last. */
function endOf(range: RowRange, changes: readonly ChangedRow[], from: number, next: readonly CellValue[] | undefined): number {
  if (next === undefined) return changes.length;
  const direction = range.reverse ? -1 : 1;
  let end = from;
  while (end < changes.length && direction * compareClustering(changes[end]!.image.key.clustering, next) <= 0) end += 1;
  return end;
}

function mergePage(range: RowRange, stored: readonly RowImage[], changes: readonly ChangedRow[]): RowImage[] {
  if (changes.length === 0) return [...stored];
  const byText = new Map(changes.map(({ text, image }) => [text, image]));
  assert(byText.size === changes.length, "a row has one change");
  const merged: RowImage[] = [];
  for (const image of stored) {
    const text = keyText(image.key);
    const change = byText.get(text);
    byText.delete(text);
    merged.push(change === undefined ? image : mergeImages(image, change));
  }
  merged.push(...byText.values());
  const direction = range.reverse ? -1 : 1;
  merged.sort((a, b) => direction * compareClustering(a.key.clustering, b.key.clustering));
  return merged.filter((image) => liveRow(image) !== undefined);
}

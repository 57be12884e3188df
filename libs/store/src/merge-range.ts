import { compareBytes } from "@concord/codec";
import type { KeyRange, KeyValueEntry } from "@concord/ports";
import type { DirtyEntry } from "./dirty-table.ts";

/**
 * A range of the backing store with dirty entries over it. `overlay` is in the range's order and must hold every dirty entry up to
 * the end of the answer.
 */
export async function mergeRange(
  range: KeyRange,
  overlay: readonly DirtyEntry[],
  read: (range: KeyRange) => Promise<readonly KeyValueEntry[]>,
): Promise<KeyValueEntry[]> {
  const { limit, reverse = false } = range;
  const found: KeyValueEntry[] = [];
  let [from, to, at] = [range.from, range.to, 0];
  while (found.length < limit) {
    const wanted = limit - found.length;
    const page = await read({ from, to, limit: wanted, reverse });
    for (const entry of page) {
      while (at < overlay.length && isBefore(overlay[at]!.key, entry.key, reverse)) push(found, overlay[(at += 1) - 1]!);
      if (at < overlay.length && compareBytes(overlay[at]!.key, entry.key) === 0) push(found, overlay[(at += 1) - 1]!);
      else found.push(entry);
    }
    if (page.length < wanted) {
      while (at < overlay.length) push(found, overlay[(at += 1) - 1]!);
      break;
    }
    const last = page.at(-1)!.key;
    if (reverse) to = last;
    else from = keyAfter(last);
  }
  return found.slice(0, limit);
}

/** The smallest key above `key`. */
export function keyAfter(key: Uint8Array): Uint8Array {
  const after = new Uint8Array(key.length + 1);
  after.set(key);
  return after;
}

function isBefore(left: Uint8Array, right: Uint8Array, reverse: boolean): boolean {
  const order = compareBytes(left, right);
  return reverse ? order > 0 : order < 0;
}

function push(found: KeyValueEntry[], { key, value }: DirtyEntry): void {
  if (value !== undefined) found.push({ key: key.slice(), value: value.slice() });
}

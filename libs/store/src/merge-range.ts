import { compareBytes } from "@concord/codec";
import type { KeyRange, KeyValueEntry } from "@concord/ports";
import type { DirtyEntry } from "./dirty-entry.ts";

/**
 * A range of the backing store with dirty entries over it. `overlay` is in the range's order and must hold every dirty entry up to
 * the end of the answer.
 */
export async function mergeRange(
  range: KeyRange,
  overlay: readonly DirtyEntry[],
  read: (range: KeyRange) => Promise<readonly KeyValueEntry[]>,
): Promise<KeyValueEntry[]> {
  const { limit, bytesMax = Number.MAX_SAFE_INTEGER, reverse = false } = range;
  const found: KeyValueEntry[] = [];
  let bytes = 0;
  const isFull = (): boolean => found.length >= limit || bytes > bytesMax;
  const add = (entry: KeyValueEntry): void => {
    if (isFull()) return;
    found.push(entry);
    bytes += bytesOf(entry);
  };
  const addDirty = ({ operation }: DirtyEntry): void => {
    if (operation.kind === "put" && !isFull()) add({ key: operation.key.slice(), value: operation.value.slice() });
  };
  let [from, to, at] = [range.from, range.to, 0];
  while (!isFull()) {
    const wanted = limit - found.length;
    const page = await read({ ...range, from, to, limit: wanted });
    for (const entry of page) {
      while (at < overlay.length && isBefore(overlay[at]!.operation.key, entry.key, reverse)) addDirty(overlay[(at += 1) - 1]!);
      if (at < overlay.length && compareBytes(overlay[at]!.operation.key, entry.key) === 0) addDirty(overlay[(at += 1) - 1]!);
      else add(entry);
    }
    const last = page.at(-1);
    if (last === undefined || (page.length < wanted && page.reduce((sum, entry) => sum + bytesOf(entry), 0) <= bytesMax)) {
      while (at < overlay.length) addDirty(overlay[(at += 1) - 1]!);
      break;
    }
    if (reverse) to = last.key;
    else from = keyAfter(last.key);
  }
  return found;
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

function bytesOf({ key, value }: KeyValueEntry): number {
  return key.length + value.length;
}

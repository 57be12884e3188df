import { assert } from "@concord/runtime";
import { compareIds, ID_WORDS } from "./id-words.ts";

const DIGITS = 1 << 16;

/** Fewer are compared: passes over counters of all digits cost more. */
const COUNTED_MIN = 8192;

/** The ids in order, by counting passes over 16 bits each; `pause` is awaited between passes, so that look-ups go on meanwhile. */
export async function sortIds(ids: Uint32Array, pause: () => Promise<void>): Promise<Uint32Array> {
  const count = ids.length / ID_WORDS;
  let order = new Uint32Array(count);
  for (let number = 0; number < count; number += 1) order[number] = number;
  if (count < COUNTED_MIN)
    return inOrder(
      ids,
      order.sort((left, right) => compareIds(ids, left * ID_WORDS, ids, right * ID_WORDS)),
    );
  let next = new Uint32Array(count);
  for (let word = ID_WORDS - 1; word >= 0; word -= 1) {
    for (const shift of [0, 16]) {
      if (!sortPass(ids, word, shift, order, next)) continue;
      [order, next] = [next, order];
      await pause();
    }
  }
  return inOrder(ids, order);
}

function inOrder(ids: Uint32Array, order: Uint32Array): Uint32Array {
  const sorted = new Uint32Array(ids.length);
  for (let at = 0; at < order.length; at += 1) {
    const from = order[at]! * ID_WORDS;
    for (let word = 0; word < ID_WORDS; word += 1) sorted[at * ID_WORDS + word] = ids[from + word]!;
    assert(at === 0 || compareIds(sorted, (at - 1) * ID_WORDS, sorted, at * ID_WORDS) <= 0, "a segment's ids are in order");
  }
  return sorted;
}

/** False: all have the same digit, the order stays. */
function sortPass(ids: Uint32Array, word: number, shift: number, order: Uint32Array, next: Uint32Array): boolean {
  const starts = new Uint32Array(DIGITS + 1);
  for (const number of order) starts[((ids[number * ID_WORDS + word]! >>> shift) & (DIGITS - 1)) + 1]! += 1;
  if (starts.includes(order.length)) return false;
  for (let digit = 1; digit < DIGITS; digit += 1) starts[digit]! += starts[digit - 1]!;
  for (const number of order) {
    const digit = (ids[number * ID_WORDS + word]! >>> shift) & (DIGITS - 1);
    next[starts[digit]!] = number;
    starts[digit]! += 1;
  }
  assert(starts[DIGITS - 1] === order.length, "each id has a place in the order");
  return true;
}

import { compareBytes } from "./compare-bytes.ts";
import { keyText } from "./key-text.ts";

const SLOTS_MIN = 64;
/** Of every empty table: many stay so. */
const NO_SLOTS = new Int32Array(2);
/** Slots that are looked at for a key before it is kept by its text: keys that were chosen to have one hash cost a text each, no more. */
const PROBES_MAX = 16;
const FACTOR = 0x01000193;

/** What a table finds by its key. The bytes must not change. */
export interface Keyed {
  readonly key: Uint8Array;
  /** `keyHash` of the key. */
  readonly hash: number;
}

/** 32 bits, signed. */
export function keyHash(key: Uint8Array): number {
  return keyHashWithin(key, 0, key.length);
}

/** Of the key from `from` to before `to`: two sums of every other byte, so that a processor works at both at once. */
export function keyHashWithin(bytes: Uint8Array, from: number, to: number): number {
  let [even, odd, at] = [0x811c9dc5 ^ (to - from), 0x1b873593, from];
  for (; at + 1 < to; at += 2) {
    even = Math.imul(even ^ bytes[at]!, FACTOR);
    odd = Math.imul(odd ^ bytes[at + 1]!, FACTOR);
  }
  if (at < to) even = Math.imul(even ^ bytes[at]!, FACTOR);
  const mixed = Math.imul(even ^ Math.imul(odd ^ (odd >>> 15), 0x2c1b3c6d), 0x297a2d39);
  return mixed ^ (mixed >>> 15);
}

/**
 * Entries by the bytes of their keys, in the order in which keys were first put. A map of texts makes a text of each key that it is asked for,
 * and V8 then keeps every such text in a table of its own, in old memory: for keys that are put once and seldom read again that is most of the cost.
 */
export class KeyTable<Entry extends Keyed> {
  readonly #entries: Entry[] = [];
  /** Pairs at the place of a hash or behind it: index of an entry + 1, or 0: free; its hash. At most half are taken. */
  #slots = NO_SLOTS;
  /** Index by text of what found no slot. */
  #crowded = new Map<string, number>();

  get size(): number {
    return this.#entries.length;
  }

  /** A later entry of a key stands in the place of the one before. */
  get entries(): readonly Entry[] {
    return this.#entries;
  }

  get(key: Uint8Array, hash: number): Entry | undefined {
    const at = this.#indexOf({ key, hash });
    return at === undefined ? undefined : this.#entries[at];
  }

  /** Answers the entry that it replaces. */
  put(entry: Entry): Entry | undefined {
    const at = this.#indexOf(entry);
    if (at !== undefined) {
      const before = this.#entries[at]!;
      this.#entries[at] = entry;
      return before;
    }
    this.#entries.push(entry);
    if (4 * this.#entries.length > this.#slots.length) this.#grow();
    this.#place(this.#entries.length - 1, entry.hash);
    return undefined;
  }

  /** The key is asked for only where another has its hash. */
  #indexOf(wanted: Keyed): number | undefined {
    const { hash } = wanted;
    const slots = this.#slots;
    const mask = slots.length - 1;
    let at = (2 * hash) & mask;
    for (let probe = 0; probe < PROBES_MAX; probe += 1) {
      const slot = slots[at]!;
      if (slot === 0) return undefined;
      if (slots[at + 1] === hash && compareBytes(this.#entries[slot - 1]!.key, wanted.key) === 0) return slot - 1;
      at = (at + 2) & mask;
    }
    return this.#crowded.size === 0 ? undefined : this.#crowded.get(keyText(wanted.key));
  }

  #place(index: number, hash: number): void {
    const slots = this.#slots;
    const mask = slots.length - 1;
    let at = (2 * hash) & mask;
    for (let probe = 0; probe < PROBES_MAX; probe += 1) {
      if (slots[at] === 0) {
        slots[at] = index + 1;
        slots[at + 1] = hash;
        return;
      }
      at = (at + 2) & mask;
    }
    this.#crowded.set(keyText(this.#entries[index]!.key), index);
  }

  /** Passes over the slots in their order, not over the entries, which lie anywhere in memory. */
  #grow(): void {
    const [slots, crowded] = [this.#slots, this.#crowded];
    this.#slots = new Int32Array(Math.max(2 * SLOTS_MIN, 2 * slots.length));
    this.#crowded = new Map();
    for (let at = 0; at < slots.length; at += 2) if (slots[at] !== 0) this.#place(slots[at]! - 1, slots[at + 1]!);
    for (const index of crowded.values()) this.#place(index, this.#entries[index]!.hash);
  }
}

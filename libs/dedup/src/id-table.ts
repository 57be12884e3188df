import { assert } from "@concord/runtime";
import { compareIds, ID_WORDS, mixId } from "./id-words.ts";

const SLOTS_MIN = 64;

/** A set of ids in arrival order: an open-addressing table in typed arrays, half full at most. */
export class IdTable {
  readonly #seed: number;
  #ids: Uint32Array;
  /** Number of an id plus one; 0 = free. */
  #slots: Uint32Array;
  #count = 0;

  constructor(seed: number, expected = 0) {
    this.#seed = seed;
    let slots = SLOTS_MIN;
    while (slots < expected * 2) slots *= 2;
    assert((slots & (slots - 1)) === 0, "a table has a power of two of slots: a mask finds each");
    this.#slots = new Uint32Array(slots);
    this.#ids = new Uint32Array((slots / 2) * ID_WORDS);
  }

  get count(): number {
    return this.#count;
  }

  get memoryBytes(): number {
    return this.#ids.byteLength + this.#slots.byteLength;
  }

  /** All ids in the order they came: a view. */
  get words(): Uint32Array {
    return this.#ids.subarray(0, this.#count * ID_WORDS);
  }

  has(words: Uint32Array, at: number): boolean {
    return this.#slots[this.#slotOf(words, at)] !== 0;
  }

  /** False: it is there already. */
  add(words: Uint32Array, at: number): boolean {
    const slot = this.#slotOf(words, at);
    if (this.#slots[slot] !== 0) return false;
    for (let word = 0; word < ID_WORDS; word += 1) this.#ids[this.#count * ID_WORDS + word] = words[at + word]!;
    this.#count += 1;
    this.#slots[slot] = this.#count;
    if (this.#count * 2 === this.#slots.length) this.#grow();
    assert(this.#count * 2 < this.#slots.length, "a table is half full at most: a search ends");
    return true;
  }

  /** The slot that holds the id, or the free one where it belongs. */
  #slotOf(words: Uint32Array, at: number): number {
    const mask = this.#slots.length - 1;
    let slot = mixId(words, at, this.#seed) & mask;
    for (;;) {
      const held = this.#slots[slot]!;
      if (held === 0 || compareIds(this.#ids, (held - 1) * ID_WORDS, words, at) === 0) return slot;
      slot = (slot + 1) & mask;
    }
  }

  #grow(): void {
    const ids = new Uint32Array(this.#ids.length * 2);
    ids.set(this.#ids);
    this.#ids = ids;
    this.#slots = new Uint32Array(this.#slots.length * 2);
    assert(this.#ids.length * 2 === this.#slots.length * ID_WORDS, "a table that is half full has a place for each id");
    for (let number = 0; number < this.#count; number += 1) {
      const slot = this.#slotOf(ids, number * ID_WORDS);
      assert(this.#slots[slot] === 0, "a set holds an id once");
      this.#slots[slot] = number + 1;
    }
  }
}

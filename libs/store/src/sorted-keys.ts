import type { DirtyEntry } from "./dirty-entry.ts";
import { ORDERED_KEYS_PER_RANGE } from "./limits.ts";

/** Keys of a chunk before it is split. */
const CHUNK_KEYS = 256;

/**
 * Entries of a list in the order of their keys: a list of short sorted lists of indices, so that an insertion moves few of them. An entry is put
 * in order when ranges are asked for, some with each: most are gone before one is. An entry may be replaced by another one of the same key.
 */
export class SortedKeys {
  readonly #entries: readonly DirtyEntry[];
  /** None is empty. */
  readonly #chunks: number[][] = [];
  /** Not in order yet: from this index on. */
  #next = 0;

  /** `entries` may grow. No two have the same key. */
  constructor(entries: readonly DirtyEntry[]) {
    this.#entries = entries;
  }

  /** Indices of the entries from `from` (inclusive) to `to` (exclusive), ascending. The list must not grow meanwhile. */
  *ascending(from: Uint8Array, to: Uint8Array): Generator<number> {
    const added = this.#addedWithin(from, to);
    let next = 0;
    for (const index of this.#ascending(from, to)) {
      while (next < added.length && this.#order(added[next]!, index) < 0) yield added[next++]!;
      yield index;
    }
    while (next < added.length) yield added[next++]!;
  }

  /** The same, descending. */
  *descending(from: Uint8Array, to: Uint8Array): Generator<number> {
    const added = this.#addedWithin(from, to);
    let next = added.length - 1;
    for (const index of this.#descending(from, to)) {
      while (next >= 0 && this.#order(added[next]!, index) > 0) yield added[next--]!;
      yield index;
    }
    while (next >= 0) yield added[next--]!;
  }

  /** In order. Puts some of the others in their places before it looks. */
  #addedWithin(from: Uint8Array, to: Uint8Array): readonly number[] {
    const end = Math.min(this.#entries.length, this.#next + ORDERED_KEYS_PER_RANGE);
    for (; this.#next < end; this.#next += 1) this.#insert(this.#next);
    const added: number[] = [];
    for (let index = end; index < this.#entries.length; index += 1) {
      const entry = this.#entries[index]!;
      if (entry.compareKey(from) >= 0 && entry.compareKey(to) < 0) added.push(index);
    }
    return added.sort((left, right) => this.#order(left, right));
  }

  #insert(index: number): void {
    const { key } = this.#entries[index]!;
    const at = this.#chunkOf(key);
    const chunk = this.#chunks[at];
    if (chunk === undefined) {
      this.#chunks.push([index]);
      return;
    }
    chunk.splice(this.#lowerBound(chunk, key), 0, index);
    if (chunk.length > CHUNK_KEYS) this.#chunks.splice(at + 1, 0, chunk.splice(chunk.length >>> 1));
  }

  *#ascending(from: Uint8Array, to: Uint8Array): Generator<number> {
    for (let at = this.#chunkOf(from); at < this.#chunks.length; at += 1) {
      const chunk = this.#chunks[at]!;
      for (let place = this.#lowerBound(chunk, from); place < chunk.length; place += 1) {
        if (this.#entries[chunk[place]!]!.compareKey(to) >= 0) return;
        yield chunk[place]!;
      }
    }
  }

  *#descending(from: Uint8Array, to: Uint8Array): Generator<number> {
    for (let at = Math.min(this.#chunkOf(to), this.#chunks.length - 1); at >= 0; at -= 1) {
      const chunk = this.#chunks[at]!;
      for (let place = this.#lowerBound(chunk, to) - 1; place >= 0; place -= 1) {
        if (this.#entries[chunk[place]!]!.compareKey(from) < 0) return;
        yield chunk[place]!;
      }
    }
  }

  #order(left: number, right: number): number {
    return this.#entries[left]!.compareKey(this.#entries[right]!.key);
  }

  /** The last chunk that does not begin above `key`; the first one when all do. */
  #chunkOf(key: Uint8Array): number {
    let low = 0;
    let high = this.#chunks.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#entries[this.#chunks[middle]![0]!]!.compareKey(key) <= 0) low = middle + 1;
      else high = middle;
    }
    return Math.max(0, low - 1);
  }

  /** Place of the first one in the chunk whose key is not below `key`. */
  #lowerBound(chunk: readonly number[], key: Uint8Array): number {
    let low = 0;
    let high = chunk.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#entries[chunk[middle]!]!.compareKey(key) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

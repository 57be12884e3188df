import { ORDERED_KEYS_PER_RANGE } from "./limits.ts";

/** Keys of a chunk before it is split. */
const CHUNK_KEYS = 256;

/**
 * A set of texts in order: a list of short sorted lists, so that an insertion moves few of them. A text is put in order when ranges are
 * asked for, some with each: most are gone before one is.
 */
export class SortedKeys {
  /** None is empty. */
  readonly #chunks: string[][] = [];
  /** Not in order yet. */
  readonly #added: string[] = [];

  /** A text that the set does not have. */
  add(key: string): void {
    this.#added.push(key);
  }

  /** Keys from `from` (inclusive) to `to` (exclusive), ascending. The set must not change meanwhile. */
  *ascending(from: string, to: string): Generator<string> {
    const added = this.#addedWithin(from, to);
    let next = 0;
    for (const key of this.#ascending(from, to)) {
      while (next < added.length && added[next]! < key) yield added[next++]!;
      yield key;
    }
    while (next < added.length) yield added[next++]!;
  }

  /** The same keys, descending. */
  *descending(from: string, to: string): Generator<string> {
    const added = this.#addedWithin(from, to);
    let next = added.length - 1;
    for (const key of this.#descending(from, to)) {
      while (next >= 0 && added[next]! > key) yield added[next--]!;
      yield key;
    }
    while (next >= 0) yield added[next--]!;
  }

  /** In order. Puts the newest in their places before it looks. */
  #addedWithin(from: string, to: string): readonly string[] {
    for (const key of this.#added.splice(Math.max(0, this.#added.length - ORDERED_KEYS_PER_RANGE))) this.#insert(key);
    return this.#added.filter((key) => key >= from && key < to).sort();
  }

  #insert(key: string): void {
    const at = this.#chunkOf(key);
    const chunk = this.#chunks[at];
    if (chunk === undefined) {
      this.#chunks.push([key]);
      return;
    }
    chunk.splice(lowerBound(chunk, key), 0, key);
    if (chunk.length > CHUNK_KEYS) this.#chunks.splice(at + 1, 0, chunk.splice(chunk.length >>> 1));
  }

  *#ascending(from: string, to: string): Generator<string> {
    for (let at = this.#chunkOf(from); at < this.#chunks.length; at += 1) {
      const chunk = this.#chunks[at]!;
      for (let place = lowerBound(chunk, from); place < chunk.length; place += 1) {
        if (chunk[place]! >= to) return;
        yield chunk[place]!;
      }
    }
  }

  *#descending(from: string, to: string): Generator<string> {
    for (let at = Math.min(this.#chunkOf(to), this.#chunks.length - 1); at >= 0; at -= 1) {
      const chunk = this.#chunks[at]!;
      for (let place = lowerBound(chunk, to) - 1; place >= 0; place -= 1) {
        if (chunk[place]! < from) return;
        yield chunk[place]!;
      }
    }
  }

  /** The last chunk that does not begin above `key`; the first one when all do. */
  #chunkOf(key: string): number {
    let low = 0;
    let high = this.#chunks.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#chunks[middle]![0]! <= key) low = middle + 1;
      else high = middle;
    }
    return Math.max(0, low - 1);
  }
}

/** Index of the first key that is not below `key`. */
function lowerBound(keys: readonly string[], key: string): number {
  let low = 0;
  let high = keys.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (keys[middle]! < key) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Keys of a chunk before it is split. */
const CHUNK_KEYS = 256;

/** A sorted set of texts: a list of short sorted lists, so that an insertion moves few of them. */
export class SortedKeys {
  /** None is empty. */
  readonly #chunks: string[][] = [];

  add(key: string): void {
    const at = this.#chunkOf(key);
    const chunk = this.#chunks[at];
    if (chunk === undefined) {
      this.#chunks.push([key]);
      return;
    }
    const place = lowerBound(chunk, key);
    if (chunk[place] === key) return;
    chunk.splice(place, 0, key);
    if (chunk.length > CHUNK_KEYS) this.#chunks.splice(at + 1, 0, chunk.splice(chunk.length >>> 1));
  }

  delete(key: string): void {
    const at = this.#chunkOf(key);
    const chunk = this.#chunks[at];
    if (chunk === undefined) return;
    const place = lowerBound(chunk, key);
    if (chunk[place] !== key) return;
    chunk.splice(place, 1);
    if (chunk.length === 0) this.#chunks.splice(at, 1);
  }

  /** Keys from `from` (inclusive) to `to` (exclusive), ascending. The set must not change meanwhile. */
  *ascending(from: string, to: string): Generator<string> {
    for (let at = this.#chunkOf(from); at < this.#chunks.length; at += 1) {
      const chunk = this.#chunks[at]!;
      for (let place = lowerBound(chunk, from); place < chunk.length; place += 1) {
        if (chunk[place]! >= to) return;
        yield chunk[place]!;
      }
    }
  }

  /** The same keys, descending. */
  *descending(from: string, to: string): Generator<string> {
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

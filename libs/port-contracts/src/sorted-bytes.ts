import type { KeyRange, KeyValueEntry } from "@concord/ports";

/** An ordered map from bytes to bytes. Keys are compared bytewise; what goes in and out is copied. */
export class SortedBytes {
  readonly #entries = new Map<string, KeyValueEntry>();
  readonly #order: string[] = [];

  get size(): number {
    return this.#order.length;
  }

  get(key: Uint8Array): Uint8Array | undefined {
    return this.#entries.get(textOf(key))?.value.slice();
  }

  /** Answers the value that was there before. */
  put(key: Uint8Array, value: Uint8Array): Uint8Array | undefined {
    const text = textOf(key);
    const before = this.#entries.get(text);
    if (before === undefined) this.#order.splice(this.#lowerBound(text), 0, text);
    this.#entries.set(text, { key: key.slice(), value: value.slice() });
    return before?.value;
  }

  delete(key: Uint8Array): Uint8Array | undefined {
    const text = textOf(key);
    const before = this.#entries.get(text);
    if (before === undefined) return undefined;
    this.#order.splice(this.#lowerBound(text), 1);
    this.#entries.delete(text);
    return before.value;
  }

  range(range: KeyRange): KeyValueEntry[] {
    const low = this.#lowerBound(textOf(range.from));
    const high = Math.max(low, this.#lowerBound(textOf(range.to)));
    const count = Math.max(0, Math.min(range.limit, high - low));
    const keys = range.reverse === true ? this.#order.slice(high - count, high).reverse() : this.#order.slice(low, low + count);
    const entries = keys.map((text) => this.#entries.get(text)!);
    return withinBytes(entries, range.bytesMax).map(({ key, value }) => ({ key: key.slice(), value: value.slice() }));
  }

  clear(): void {
    this.#entries.clear();
    this.#order.length = 0;
  }

  #lowerBound(text: string): number {
    let low = 0;
    let high = this.#order.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#order[middle]! < text) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** The first entries, up to the one with which they hold more than `bytesMax`. */
export function withinBytes(entries: readonly KeyValueEntry[], bytesMax = Number.MAX_SAFE_INTEGER): readonly KeyValueEntry[] {
  let bytes = 0;
  const last = entries.findIndex(({ key, value }) => (bytes += key.length + value.length) > bytesMax);
  return last === -1 ? entries : entries.slice(0, last + 1);
}

/** One UTF-16 unit per byte: comparing these texts compares the bytes. */
function textOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
}

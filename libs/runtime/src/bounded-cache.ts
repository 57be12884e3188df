import { assert } from "./assert.ts";

export interface BoundedCacheLimits {
  readonly entriesMax: number;
  /** Bytes of all keys and values together. */
  readonly bytesMax: number;
}

interface Entry<Value> {
  readonly value: Value;
  readonly bytes: number;
}

/**
 * Values that can be made again, by key: bounded in entries and in bytes, so that the largest values users can make take no more memory than small
 * ones. The oldest go first; a value that alone is above the limit is not kept.
 */
export class BoundedCache<Key, Value extends object> {
  readonly #entries = new Map<Key, Entry<Value>>();
  readonly #limits: BoundedCacheLimits;
  #bytes = 0;

  constructor(limits: BoundedCacheLimits) {
    assert(limits.entriesMax > 0 && limits.bytesMax >= 0, "a cache has a limit of entries and of bytes");
    this.#limits = limits;
  }

  get size(): number {
    return this.#entries.size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get(key: Key): Value | undefined {
    return this.#entries.get(key)?.value;
  }

  /** The kept value, or the one that `make` returns, which is kept. Nothing is kept when `make` throws. */
  getOrMake(key: Key, make: () => Value): Value {
    const known = this.get(key);
    if (known !== undefined) return known;
    const made = make();
    this.set(key, made);
    return made;
  }

  /** `bytes`: what key and value take in memory, unless it is to be estimated. */
  set(key: Key, value: Value, bytes = approximateBytes(key) + approximateBytes(value)): void {
    this.delete(key);
    if (bytes > this.#limits.bytesMax) return;
    this.#entries.set(key, { value, bytes });
    this.#bytes += bytes;
    this.#evict();
  }

  delete(key: Key): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    this.#entries.delete(key);
    this.#bytes -= entry.bytes;
    assert(this.#bytes >= 0, "bytes of cached values are counted once");
  }

  /** An eighth at once: finding the oldest entry of a map passes over those deleted since it was last rebuilt. The newest stays. */
  #evict(): void {
    const { entriesMax, bytesMax } = this.#limits;
    if (this.#entries.size <= entriesMax && this.#bytes <= bytesMax) return;
    for (const key of this.#entries.keys()) {
      if (this.#entries.size === 1) break;
      if (this.#entries.size <= entriesMax - (entriesMax >>> 3) && this.#bytes <= bytesMax - Math.floor(bytesMax / 8)) break;
      this.delete(key);
    }
    assert(this.#entries.size <= entriesMax && this.#bytes <= bytesMax, "a cache is bounded in entries and in bytes");
  }
}

/** Bytes of a string, a bigint, an object, an array, a map or a set besides what is in it. */
const HEAD_BYTES = 32;
/** Bytes of one character, as where one of a string is not Latin. */
const CHARACTER_BYTES = 2;
/** Bytes of one property or element besides its value; that of a number is no more. */
const SLOT_BYTES = 16;
/** Bytes of a view of bytes and of its buffer besides what is in it. */
const VIEW_BYTES = 224;

/** About the bytes that a tree of plain values takes in memory. What is reached twice counts twice. */
export function approximateBytes(value: unknown): number {
  let bytes = 0;
  const left: unknown[] = [value];
  while (left.length > 0) {
    const next = left.pop();
    if (typeof next === "bigint") bytes += HEAD_BYTES;
    else if (typeof next === "string") bytes += HEAD_BYTES + next.length * CHARACTER_BYTES;
    else if (ArrayBuffer.isView(next)) bytes += VIEW_BYTES + next.byteLength;
    else if (typeof next === "object" && next !== null) {
      const items = itemsOf(next);
      bytes += HEAD_BYTES + items.length * SLOT_BYTES;
      for (const item of items) left.push(item);
    }
  }
  return bytes;
}

function itemsOf(tree: object): readonly unknown[] {
  if (Array.isArray(tree)) return tree;
  if (tree instanceof Map) return [...tree].flat();
  return tree instanceof Set ? [...tree] : Object.values(tree);
}

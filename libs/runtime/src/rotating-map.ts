/** Keys that are added until the map begins a new one. */
const ADDED_MIN = 256;

/**
 * A map whose entries come and go all the time. V8's own links each hash table that it outgrew to the next one: once one of them is in the
 * old generation, it keeps every later table, and all that was ever in the map, until the next full garbage collection, and what the
 * scavenger has to copy grows to several times what is alive. This one begins a new map from time to time, which ends the chain. Keys are in
 * the order in which they were added, as in a Map. It must not be added to while it is iterated over.
 */
export class RotatingMap<Key, Value extends object> {
  #older = new Map<Key, Value>();
  #newer = new Map<Key, Value>();
  #added = 0;

  get size(): number {
    return this.#older.size + this.#newer.size;
  }

  get(key: Key): Value | undefined {
    return this.#newer.get(key) ?? this.#older.get(key);
  }

  has(key: Key): boolean {
    return this.get(key) !== undefined;
  }

  set(key: Key, value: Value): void {
    if (this.#older.has(key)) {
      this.#older.set(key, value);
      return;
    }
    if (this.#added >= Math.max(ADDED_MIN, this.#older.size) && !this.#newer.has(key)) this.#rotate();
    this.#newer.set(key, value);
    this.#added += 1;
  }

  delete(key: Key): boolean {
    return this.#newer.delete(key) || this.#older.delete(key);
  }

  clear(): void {
    this.#older = new Map();
    this.#newer = new Map();
    this.#added = 0;
  }

  *keys(): Generator<Key> {
    yield* this.#older.keys();
    yield* this.#newer.keys();
  }

  *values(): Generator<Value> {
    yield* this.#older.values();
    yield* this.#newer.values();
  }

  *[Symbol.iterator](): Generator<[Key, Value]> {
    yield* this.#older;
    yield* this.#newer;
  }

  /** Copies what is left once per as many additions. */
  #rotate(): void {
    const left = new Map<Key, Value>();
    const keep = (value: Value, key: Key): void => void left.set(key, value);
    this.#older.forEach(keep);
    this.#newer.forEach(keep);
    this.#older = left;
    this.#newer = new Map();
    this.#added = 0;
  }
}

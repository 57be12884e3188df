import { assert } from "@concord/runtime";

/** What the engine knows about a key: its newest value, that of steps which have run but are not synced yet included. */
type Known = { kind: "loading" } | { kind: "known"; value: Uint8Array | undefined };

interface Entry {
  known: Known;
  /** Steps that need the entry; at 0 it is only cached. */
  uses: number;
}

export interface CacheLimits {
  readonly cacheEntriesMax: number;
  readonly cacheBytesMax: number;
  readonly cacheValueBytesMax: number;
}

/**
 * The newest value of every key that a step in the engine needs or has written, and a bounded cache of recent ones. It is exact
 * because the engine is the store's only writer (I4): an entry changes when a step writes, never behind our back.
 */
export class ValueView {
  readonly #limits: CacheLimits;
  readonly #entries = new Map<string, Entry>();
  /** Unused entries, least recently used first. */
  readonly #cached = new Map<string, number>();
  #cachedBytes = 0;

  constructor(limits: CacheLimits) {
    this.#limits = limits;
  }

  /** Holds the key for a step. True: nobody has loaded it yet, the caller must, and then calls `fill`. */
  acquire(key: string): boolean {
    const entry = this.#entries.get(key);
    if (entry === undefined) {
      this.#entries.set(key, { known: { kind: "loading" }, uses: 1 });
      return true;
    }
    this.#use(key, entry);
    return false;
  }

  /** What the store had. A write of a step that ran meanwhile is newer and stays. */
  fill(key: string, value: Uint8Array | undefined): void {
    const entry = this.#entries.get(key);
    assert(entry !== undefined, "a loaded key is held by the step that asked for it");
    if (entry.known.kind === "loading") entry.known = { kind: "known", value };
  }

  read(key: string): Uint8Array | undefined {
    const entry = this.#entries.get(key);
    assert(entry !== undefined && entry.known.kind === "known", "a step runs after its keys were loaded");
    return entry.known.value;
  }

  /** Holds the key until the write is on disk: the caller releases it then. */
  write(key: string, value: Uint8Array | undefined): void {
    const known: Known = { kind: "known", value };
    const entry = this.#entries.get(key);
    if (entry === undefined) {
      this.#entries.set(key, { known, uses: 1 });
      return;
    }
    this.#use(key, entry);
    entry.known = known;
  }

  release(key: string): void {
    const entry = this.#entries.get(key);
    assert(entry !== undefined && entry.uses > 0, "a key is released once per use");
    entry.uses -= 1;
    if (entry.uses > 0) return;
    const bytes = entry.known.kind === "known" ? key.length + (entry.known.value?.length ?? 0) : Infinity;
    if (bytes > this.#limits.cacheValueBytesMax) {
      this.#entries.delete(key);
      return;
    }
    this.#cached.set(key, bytes);
    this.#cachedBytes += bytes;
    this.#evict();
  }

  #use(key: string, entry: Entry): void {
    if (entry.uses === 0) {
      this.#cachedBytes -= this.#cached.get(key)!;
      this.#cached.delete(key);
    }
    entry.uses += 1;
  }

  #evict(): void {
    for (const [key, bytes] of this.#cached) {
      if (this.#cached.size <= this.#limits.cacheEntriesMax && this.#cachedBytes <= this.#limits.cacheBytesMax) return;
      this.#cached.delete(key);
      this.#cachedBytes -= bytes;
      this.#entries.delete(key);
    }
  }
}

const CHUNK_BYTES = 4096;

/** A key as a text of the same length: maps compare texts by content. */
export function keyText(key: Uint8Array): string {
  if (key.length <= CHUNK_BYTES) return String.fromCharCode.apply(null, key as unknown as number[]);
  let text = "";
  for (let at = 0; at < key.length; at += CHUNK_BYTES) text += keyText(key.subarray(at, at + CHUNK_BYTES));
  return text;
}

import { assert, RotatingMap } from "@concord/runtime";

/** What the engine knows about a key: its newest value, that of steps which have run but are not synced yet included. */
type Known = { kind: "loading" } | { kind: "known"; value: Uint8Array | undefined };

interface Entry {
  known: Known;
  /** Steps that need the entry; at 0 it is only cached. */
  uses: number;
  /** Has a step asked for the key? What steps only write, as entries of logs, is not worth a place among the cached. */
  isRead: boolean;
}

export interface CacheLimits {
  readonly cacheEntriesMax: number;
  readonly cacheBytesMax: number;
  readonly cacheValueBytesMax: number;
}

/**
 * The newest value of every key that a step in the engine needs or has persisted, and a bounded cache of recent ones. It is exact
 * because the engine is the store's only writer (I4): an entry changes when a step writes, never behind our back. What steps derive,
 * many values that few steps load, is with its batch until it is on disk.
 */
export class ValueView {
  readonly #limits: CacheLimits;
  /** Entries that a step needs or has written. */
  readonly #active = new RotatingMap<string, Entry>();
  /** Entries that no step needs, least recently used first; all are on disk. */
  readonly #cached = new RotatingMap<string, Entry>();
  #cachedBytes = 0;

  constructor(limits: CacheLimits) {
    this.#limits = limits;
  }

  /** Holds the key for a step. True: it is not loaded yet; the caller loads it and calls `fill`. */
  acquire(key: string): boolean {
    const entry = this.#use(key);
    if (entry !== undefined) entry.isRead = true;
    else this.#active.set(key, { known: { kind: "loading" }, uses: 1, isRead: true });
    return entry === undefined;
  }

  /** What the store had. A write of a step that ran meanwhile is newer and stays. */
  fill(key: string, value: Uint8Array | undefined): void {
    const entry = this.#active.get(key);
    assert(entry !== undefined, "a loaded key is held by the step that asked for it");
    if (entry.known.kind === "loading") entry.known = { kind: "known", value };
  }

  read(key: string): Uint8Array | undefined {
    const entry = this.#active.get(key);
    assert(entry !== undefined && entry.known.kind === "known", "a step runs after its keys were loaded");
    return entry.known.value;
  }

  /** Holds the key until the write is on disk: the caller releases it then. */
  write(key: string, value: Uint8Array | undefined): void {
    const known: Known = { kind: "known", value };
    const entry = this.#use(key);
    if (entry === undefined) this.#active.set(key, { known, uses: 1, isRead: false });
    else entry.known = known;
  }

  /** What a step derived: never cached, and what the view knows of the key is that from now on. The engine keeps it until it is on disk. */
  derive(key: string, value: Uint8Array | undefined): void {
    const entry = this.#active.get(key);
    if (entry !== undefined) entry.known = { kind: "known", value };
    else this.#forget(key);
  }

  release(key: string): void {
    const entry = this.#active.get(key);
    assert(entry !== undefined && entry.uses > 0, "a key is released once per use");
    entry.uses -= 1;
    if (entry.uses > 0) return;
    this.#active.delete(key);
    if (!entry.isRead || entry.known.kind === "loading" || sizeOf(key, entry) > this.#limits.cacheValueBytesMax) return;
    entry.known = { kind: "known", value: ownMemory(entry.known.value) };
    this.#cached.set(key, entry);
    this.#cachedBytes += sizeOf(key, entry);
    this.#evict();
  }

  /** Does a step need the key, or has one written it without being on disk yet? */
  isActive(key: string): boolean {
    return this.#active.has(key);
  }

  isActiveBetween(from: string, to: string): boolean {
    for (const key of this.#active.keys()) if (key >= from && key < to) return true;
    return false;
  }

  /** The cached value in a box; undefined when it is not cached. */
  peek(key: string): { readonly value: Uint8Array | undefined } | undefined {
    const known = this.#cached.get(key)?.known;
    return known?.kind === "known" ? known : undefined;
  }

  #use(key: string): Entry | undefined {
    let entry = this.#active.get(key);
    if (entry === undefined) {
      entry = this.#forget(key);
      if (entry === undefined) return undefined;
      this.#active.set(key, entry);
    }
    entry.uses += 1;
    return entry;
  }

  #forget(key: string): Entry | undefined {
    const entry = this.#cached.get(key);
    if (entry === undefined) return undefined;
    this.#cached.delete(key);
    this.#cachedBytes -= sizeOf(key, entry);
    return entry;
  }

  /** An eighth at once: finding the oldest entry of a map passes over those deleted since it was last rebuilt. */
  #evict(): void {
    const { cacheEntriesMax, cacheBytesMax } = this.#limits;
    if (this.#cached.size <= cacheEntriesMax && this.#cachedBytes <= cacheBytesMax) return;
    for (const [key, entry] of this.#cached) {
      if (this.#cached.size <= cacheEntriesMax * EVICT_TO && this.#cachedBytes <= cacheBytesMax * EVICT_TO) return;
      this.#cached.delete(key);
      this.#cachedBytes -= sizeOf(key, entry);
    }
  }
}

/** A part of a larger buffer would keep all of it. */
function ownMemory(value: Uint8Array | undefined): Uint8Array | undefined {
  return value === undefined || value.buffer.byteLength === value.length ? value : value.slice();
}

function sizeOf(key: string, entry: Entry): number {
  return key.length + (entry.known.kind === "known" ? (entry.known.value?.length ?? 0) : 0);
}

const EVICT_TO = 7 / 8;

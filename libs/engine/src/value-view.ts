import { assert, RotatingMap } from "@concord/runtime";

/** What the engine knows about a key: its newest value, that of steps which have run but are not synced yet included. */
type Known = { kind: "loading" } | { kind: "known"; value: Uint8Array | undefined };

/** A key that steps hold or have written, or whose value is cached. */
export interface HeldValue {
  /** The key as a text. */
  readonly key: string;
  /** `keyHash` of the key. */
  readonly hash: number;
  known: Known;
  /** Is what is known the value on disk? False of what may be newer. */
  isSynced: boolean;
  /** Steps that need it; at 0 it is only cached. */
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
  readonly #active = new RotatingMap<string, HeldValue>();
  /** Entries that no step needs, least recently used first; all are on disk. */
  readonly #cached = new RotatingMap<string, HeldValue>();
  #cachedBytes = 0;
  /** How many entries have each hash, by its last bits. */
  readonly #counts = new Uint32Array(COUNTS);

  constructor(limits: CacheLimits) {
    this.#limits = limits;
  }

  /** False: the view has no key of this hash. Spares the text of a key. */
  mayHave(hash: number): boolean {
    return this.#counts[hash & (COUNTS - 1)] !== 0;
  }

  /** Holds the key for a step, until `release`. Of a key that is not known and that no other step is loading, `needsLoad` is true: the caller loads it and calls `fill`. */
  acquire(key: string, hash: number): HeldValue {
    const held = this.#use(key);
    if (held === undefined) return this.#add({ key, hash, known: { kind: "loading" }, isSynced: false, uses: 1, isRead: true });
    held.isRead = true;
    return held;
  }

  /** Holds the key until the write is on disk: the caller releases it then. */
  write(key: string, hash: number, value: Uint8Array | undefined): HeldValue {
    const known: Known = { kind: "known", value };
    const held = this.#use(key);
    if (held === undefined) return this.#add({ key, hash, known, isSynced: false, uses: 1, isRead: false });
    held.known = known;
    held.isSynced = false;
    return held;
  }

  /** What a step derived: never cached, and what the view knows of the key is that from now on. The engine keeps it until it is on disk. */
  derive(key: string, value: Uint8Array | undefined): void {
    const held = this.#active.get(key);
    if (held !== undefined) {
      held.known = { kind: "known", value };
      held.isSynced = false;
      return;
    }
    const cached = this.#forget(key);
    if (cached !== undefined) this.#uncount(cached);
  }

  release(held: HeldValue): void {
    assert(held.uses > 0, "a key is released once per use");
    held.uses -= 1;
    if (held.uses > 0) return;
    this.#active.delete(held.key);
    if (!held.isRead || held.known.kind === "loading" || sizeOf(held) > this.#limits.cacheValueBytesMax) {
      this.#uncount(held);
      return;
    }
    held.known = { kind: "known", value: ownMemory(held.known.value) };
    held.isSynced = true;
    this.#cached.set(held.key, held);
    this.#cachedBytes += sizeOf(held);
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

  /** The value on disk in a box; undefined when only the store has it. */
  peek(key: string): { readonly value: Uint8Array | undefined } | undefined {
    const held = this.#active.get(key) ?? this.#cached.get(key);
    return held?.isSynced === true && held.known.kind === "known" ? held.known : undefined;
  }

  #add(held: HeldValue): HeldValue {
    this.#active.set(held.key, held);
    this.#counts[held.hash & (COUNTS - 1)]! += 1;
    return held;
  }

  /** It has left the view. */
  #uncount({ hash }: HeldValue): void {
    assert(this.mayHave(hash), "what leaves the view was counted");
    this.#counts[hash & (COUNTS - 1)]! -= 1;
  }

  #use(key: string): HeldValue | undefined {
    let held = this.#active.get(key);
    if (held === undefined) {
      held = this.#forget(key);
      if (held === undefined) return undefined;
      this.#active.set(key, held);
    }
    held.uses += 1;
    return held;
  }

  #forget(key: string): HeldValue | undefined {
    const held = this.#cached.get(key);
    if (held === undefined) return undefined;
    this.#cached.delete(key);
    this.#cachedBytes -= sizeOf(held);
    return held;
  }

  /** An eighth at once: finding the oldest entry of a map passes over those deleted since it was last rebuilt. */
  #evict(): void {
    const { cacheEntriesMax, cacheBytesMax } = this.#limits;
    if (this.#cached.size <= cacheEntriesMax && this.#cachedBytes <= cacheBytesMax) return;
    for (const held of this.#cached.values()) {
      if (this.#cached.size <= cacheEntriesMax * EVICT_TO && this.#cachedBytes <= cacheBytesMax * EVICT_TO) return;
      this.#cached.delete(held.key);
      this.#cachedBytes -= sizeOf(held);
      this.#uncount(held);
    }
  }
}

/** True for the one that acquired it. */
export function needsLoad(held: HeldValue): boolean {
  return held.uses === 1 && held.known.kind === "loading";
}

/** Takes what the store had, or what a batch derived that is not on disk yet. A write of a step that ran meanwhile is newer and stays. */
export function fill(held: HeldValue, value: Uint8Array | undefined, from: "store" | "batch"): void {
  if (held.known.kind !== "loading") return;
  held.known = { kind: "known", value };
  held.isSynced = from === "store";
}

/** Undefined: the key has no value. */
export function valueIn({ known }: HeldValue): Uint8Array | undefined {
  assert(known.kind === "known", "a step runs after its keys were loaded");
  return known.value;
}

/** A part of a larger buffer would keep all of it. */
function ownMemory(value: Uint8Array | undefined): Uint8Array | undefined {
  return value === undefined || value.buffer.byteLength === value.length ? value : value.slice();
}

function sizeOf({ key, known }: HeldValue): number {
  return key.length + (known.kind === "known" ? (known.value?.length ?? 0) : 0);
}

const EVICT_TO = 7 / 8;
/** A power of two. */
const COUNTS = 4_096;

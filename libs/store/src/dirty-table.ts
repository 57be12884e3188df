import { keyHash, KeyTable, PlacedPut } from "@concord/codec";
import type { KeyRange } from "@concord/ports";
import { assert } from "@concord/runtime";
import { SortedKeys } from "./sorted-keys.ts";
import { DirtyEntry } from "./dirty-entry.ts";

const ENTRY_BYTES = 120;

/** By key, and in order. A later write of a key replaces its entry. */
class Generation {
  readonly table = new KeyTable<DirtyEntry>();
  readonly #order = new SortedKeys(this.table.entries);
  /** Keys, values, and what holds them in memory, about. */
  bytes = 0;

  /** Answers the entry that it replaces. */
  put(entry: DirtyEntry): DirtyEntry | undefined {
    const before = this.table.put(entry);
    if (before !== undefined) this.bytes -= sizeOf(before);
    this.bytes += sizeOf(entry);
    return before;
  }

  *within(from: Uint8Array, to: Uint8Array, reverse: boolean): Generator<DirtyEntry> {
    const { entries } = this.table;
    for (const index of reverse ? this.#order.descending(from, to) : this.#order.ascending(from, to)) yield entries[index]!;
  }
}

/** Durable writes that no checkpoint holds, by key and in order: those that a checkpoint is writing, frozen, and later ones over them. */
export class DirtyTable {
  #current = new Generation();
  #frozen: Generation | undefined;
  #leftBytes = 0;

  /** Of what was written since the last checkpoint, about. */
  get newBytes(): number {
    return Math.max(0, this.#current.bytes - this.#leftBytes);
  }

  get bytes(): number {
    return this.#current.bytes + (this.#frozen?.bytes ?? 0);
  }

  /** Keys that are in both count twice. */
  get size(): number {
    return this.#current.table.size + (this.#frozen?.table.size ?? 0);
  }

  get(key: Uint8Array, hash: number = keyHash(key)): DirtyEntry | undefined {
    return this.#current.table.get(key, hash) ?? this.#frozen?.table.get(key, hash);
  }

  /** True: the table had no entry of the key; false: it had, and `base` follows from that. */
  put(entry: DirtyEntry): boolean {
    const before = this.#current.put(entry);
    entry.base = before === undefined ? this.#frozen?.table.get(entry.key, entry.hash) : before.base;
    return before === undefined && entry.base === undefined;
  }

  /** Everything, as it is now: it stays in the table, unchanged, until `release`. */
  freeze(): readonly DirtyEntry[] {
    assert(this.#frozen === undefined, "one checkpoint at a time");
    this.#frozen = this.#current;
    this.#current = new Generation();
    return this.#frozen.table.entries;
  }

  /** The backing store has what is frozen, but for `left`, which the next checkpoint is going to put there. */
  release(left: readonly DirtyEntry[] = []): void {
    assert(this.#frozen !== undefined, "only what is frozen is released");
    this.#frozen = undefined;
    this.#leftBytes = 0;
    for (const { key, hash, operation, image } of left) {
      if (this.#current.table.get(key, hash) !== undefined) continue;
      const entry = new DirtyEntry(operation, "left", hash);
      entry.base = image;
      this.#current.put(entry);
      this.#leftBytes += sizeOf(entry);
    }
  }

  /** Entries of the range in its order: all, or as many as hold `limit` values; no answer to the range lies beyond those. */
  within({ from, to, limit, reverse = false }: KeyRange): { readonly entries: readonly DirtyEntry[]; readonly isCut: boolean } {
    const entries: DirtyEntry[] = [];
    let values = 0;
    for (const entry of this.#merged(from, to, reverse)) {
      entries.push(entry);
      if (entry.operation.kind === "put") values += 1;
      if (values >= limit) return { entries, isCut: true };
    }
    return { entries, isCut: false };
  }

  /** Of a key that is in both the newer entry. */
  *#merged(from: Uint8Array, to: Uint8Array, reverse: boolean): Generator<DirtyEntry> {
    const newer = this.#current.within(from, to, reverse);
    let next = newer.next();
    for (const older of this.#frozen?.within(from, to, reverse) ?? []) {
      let order = next.done === true ? 1 : next.value.compareKey(older.key);
      while (next.done !== true && (reverse ? order > 0 : order < 0)) {
        yield next.value;
        next = newer.next();
        order = next.done === true ? 1 : next.value.compareKey(older.key);
      }
      if (next.done === true || order !== 0) yield older;
    }
    for (; next.done !== true; next = newer.next()) yield next.value;
  }
}

function sizeOf({ operation }: DirtyEntry): number {
  if (operation instanceof PlacedPut) return ENTRY_BYTES + operation.bytes;
  return ENTRY_BYTES + operation.key.length + (operation.kind === "put" ? operation.value.length : 0);
}

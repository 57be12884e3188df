import { keyText } from "@concord/codec";
import type { KeyRange, KeyValueOperation } from "@concord/ports";
import { assert } from "@concord/runtime";
import { SortedKeys } from "./sorted-keys.ts";

/** A write that the backing store does not have for sure. */
export interface DirtyEntry {
  /** Of its key. */
  readonly text: string;
  readonly operation: KeyValueOperation;
  /** Image of what the backing store has under the key, or the frozen entry that a checkpoint is putting there; undefined: not known. */
  base: number | DirtyEntry | undefined;
  /** What the backing store has once its checkpoint has ended. */
  image: number | undefined;
  /** Where it is but here: in the journal; nowhere, since a crash may take it back; in the journal, since a checkpoint left it there. */
  readonly origin: "journalled" | "derived" | "left";
}

export function dirtyEntry(text: string, operation: KeyValueOperation, origin: DirtyEntry["origin"] = "journalled"): DirtyEntry {
  return { text, operation, base: undefined, image: undefined, origin };
}

/** Undefined: deleted. */
export function valueOf({ operation }: DirtyEntry): Uint8Array | undefined {
  return operation.kind === "put" ? operation.value : undefined;
}

const ENTRY_BYTES = 120;

/** By key, and in order. A later write of a key replaces its entry. */
class Generation {
  readonly entries = new Map<string, DirtyEntry>();
  readonly order = new SortedKeys();
  /** Keys, values, and what holds them in memory, about. */
  bytes = 0;

  /** Answers the entry that it replaces. */
  put(entry: DirtyEntry): DirtyEntry | undefined {
    const before = this.entries.get(entry.text);
    if (before === undefined) this.order.add(entry.text);
    else this.bytes -= sizeOf(before);
    this.entries.set(entry.text, entry);
    this.bytes += sizeOf(entry);
    return before;
  }

  *within(from: string, to: string, reverse: boolean): Generator<DirtyEntry> {
    for (const text of reverse ? this.order.descending(from, to) : this.order.ascending(from, to)) yield this.entries.get(text)!;
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
    return this.#current.entries.size + (this.#frozen?.entries.size ?? 0);
  }

  get(text: string): DirtyEntry | undefined {
    return this.#current.entries.get(text) ?? this.#frozen?.entries.get(text);
  }

  /** True: the table had no entry of the key; false: it had, and `base` follows from that. */
  put(entry: DirtyEntry): boolean {
    const before = this.#current.put(entry);
    entry.base = before === undefined ? this.#frozen?.entries.get(entry.text) : before.base;
    return before === undefined && entry.base === undefined;
  }

  /** Everything, as it is now: it stays in the table, unchanged, until `release`. */
  freeze(): DirtyEntry[] {
    assert(this.#frozen === undefined, "one checkpoint at a time");
    this.#frozen = this.#current;
    this.#current = new Generation();
    return [...this.#frozen.entries.values()];
  }

  /** The backing store has what is frozen, but for `left`, which the next checkpoint is going to put there. */
  release(left: readonly DirtyEntry[] = []): void {
    assert(this.#frozen !== undefined, "only what is frozen is released");
    this.#frozen = undefined;
    this.#leftBytes = 0;
    for (const { text, operation, image } of left) {
      if (this.#current.entries.has(text)) continue;
      const entry = dirtyEntry(text, operation, "left");
      entry.base = image;
      this.#current.put(entry);
      this.#leftBytes += sizeOf(entry);
    }
  }

  /** Entries of the range in its order: all, or as many as hold `limit` values; no answer to the range lies beyond those. */
  within({ from, to, limit, reverse = false }: KeyRange): { readonly entries: readonly DirtyEntry[]; readonly isCut: boolean } {
    const entries: DirtyEntry[] = [];
    let values = 0;
    for (const entry of this.#merged(keyText(from), keyText(to), reverse)) {
      entries.push(entry);
      if (entry.operation.kind === "put") values += 1;
      if (values >= limit) return { entries, isCut: true };
    }
    return { entries, isCut: false };
  }

  /** Of a key that is in both the newer entry. */
  *#merged(from: string, to: string, reverse: boolean): Generator<DirtyEntry> {
    const newer = this.#current.within(from, to, reverse);
    let next = newer.next();
    for (const older of this.#frozen?.within(from, to, reverse) ?? []) {
      while (next.done !== true && (reverse ? next.value.text > older.text : next.value.text < older.text)) {
        yield next.value;
        next = newer.next();
      }
      if (next.done === true || next.value.text !== older.text) yield older;
    }
    for (; next.done !== true; next = newer.next()) yield next.value;
  }
}

function sizeOf({ operation }: DirtyEntry): number {
  return ENTRY_BYTES + operation.key.length + (operation.kind === "put" ? operation.value.length : 0);
}

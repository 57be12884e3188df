import { keyText } from "@concord/codec";
import type { KeyRange } from "@concord/ports";
import { SortedKeys } from "./sorted-keys.ts";

/** A value that the backing store does not have for sure. */
export interface DirtyEntry {
  /** Of the key. */
  readonly text: string;
  readonly key: Uint8Array;
  /** Undefined: deleted. */
  readonly value: Uint8Array | undefined;
  /** Image of what the backing store has under the key; undefined when it was not read yet. */
  base: number | undefined;
}

const ENTRY_BYTES = 100;

/** Durable values between two checkpoints, by key and in order. A later write of a key replaces its entry. */
export class DirtyTable {
  readonly #entries = new Map<string, DirtyEntry>();
  readonly #order = new SortedKeys();
  #bytes = 0;

  /** Keys, values, and what holds them in memory, about. */
  get bytes(): number {
    return this.#bytes;
  }

  get size(): number {
    return this.#entries.size;
  }

  get(text: string): DirtyEntry | undefined {
    return this.#entries.get(text);
  }

  /** Answers the entry that it replaces, whose base is also that of the new one. */
  put(entry: DirtyEntry): DirtyEntry | undefined {
    const before = this.#entries.get(entry.text);
    if (before === undefined) this.#order.add(entry.text);
    else {
      this.#bytes -= sizeOf(before);
      entry.base = before.base;
    }
    this.#entries.set(entry.text, entry);
    this.#bytes += sizeOf(entry);
    return before;
  }

  /** Entries that are in the table. */
  delete(entries: readonly DirtyEntry[]): void {
    for (const entry of entries) {
      this.#entries.delete(entry.text);
      this.#bytes -= sizeOf(entry);
    }
    this.#order.retain((text) => this.#entries.has(text));
  }

  /** Everything, as it is now. */
  snapshot(): DirtyEntry[] {
    return [...this.#entries.values()];
  }

  /** Entries of the range in its order: all, or as many as hold `limit` values; no answer to the range lies beyond those. */
  within({ from, to, limit, reverse = false }: KeyRange): { readonly entries: readonly DirtyEntry[]; readonly isCut: boolean } {
    const entries: DirtyEntry[] = [];
    let values = 0;
    const [low, high] = [keyText(from), keyText(to)];
    for (const text of reverse ? this.#order.descending(low, high) : this.#order.ascending(low, high)) {
      const entry = this.#entries.get(text)!;
      entries.push(entry);
      if (entry.value !== undefined) values += 1;
      if (values >= limit) return { entries, isCut: true };
    }
    return { entries, isCut: false };
  }
}

function sizeOf({ key, value }: DirtyEntry): number {
  return ENTRY_BYTES + key.length + (value?.length ?? 0);
}

import { keyText } from "@concord/codec";
import type { KeyRange } from "@concord/ports";
import { SortedKeys } from "./sorted-keys.ts";

/** A value that the backing store does not have for sure. */
export interface DirtyEntry {
  readonly key: Uint8Array;
  /** Undefined: deleted. */
  readonly value: Uint8Array | undefined;
  /** Image of what the backing store has under the key; undefined when it was not read yet. */
  readonly base: number | undefined;
}

const ENTRY_BYTES = 100;

/** Durable values between two checkpoints, by key and in order. An entry never changes; a later write of its key replaces it. */
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

  put(text: string, entry: DirtyEntry): void {
    const before = this.#entries.get(text);
    if (before === undefined) this.#order.add(text);
    else this.#bytes -= sizeOf(before);
    this.#entries.set(text, entry);
    this.#bytes += sizeOf(entry);
  }

  delete(text: string): void {
    const before = this.#entries.get(text);
    if (before === undefined) return;
    this.#entries.delete(text);
    this.#order.delete(text);
    this.#bytes -= sizeOf(before);
  }

  /** Everything, as it is now. */
  snapshot(): [string, DirtyEntry][] {
    return [...this.#entries];
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

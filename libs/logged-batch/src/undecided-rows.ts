import { storedRowKey } from "@concord/quorum";
import { assert } from "@concord/runtime";

/** A key as a text of the same length: it compares as the bytes do. */
export function nameOf(key: Uint8Array): string {
  return String.fromCharCode.apply(null, key as unknown as number[]);
}

/** Which rows the undecided batches of a node write, and who waits for them. */
export class UndecidedRows<Batch extends object> {
  readonly #byRow = new Map<string, Batch[]>();
  readonly #waiting = new Map<Batch, Set<() => void>>();

  /** `names`: of its stored keys. */
  add(batch: Batch, names: readonly string[]): void {
    this.#waiting.set(batch, new Set());
    for (const name of names) {
      const batches = this.#byRow.get(name);
      if (batches === undefined) this.#byRow.set(name, [batch]);
      else batches.push(batch);
    }
  }

  /** It is decided, or not held any more. */
  delete(batch: Batch, names: readonly string[]): void {
    for (const name of names) {
      const others = this.#byRow.get(name)!;
      if (others.length === 1) this.#byRow.delete(name);
      else others.splice(others.indexOf(batch), 1);
    }
    const listeners = this.#waiting.get(batch);
    this.#waiting.delete(batch);
    for (const listener of listeners ?? []) listener();
  }

  /** Batches that write one of the rows. */
  at(rowKeys: readonly Uint8Array[]): ReadonlySet<Batch> {
    const found = new Set<Batch>();
    if (this.#byRow.size === 0) return found;
    for (const key of rowKeys) for (const batch of this.#byRow.get(nameOf(storedRowKey(key))) ?? []) found.add(batch);
    return found;
  }

  /** Batches that write a row from `from` to `to`, `to` excluded. */
  between(from: Uint8Array, to: Uint8Array): ReadonlySet<Batch> {
    const found = new Set<Batch>();
    const [first, end] = [nameOf(storedRowKey(from)), nameOf(storedRowKey(to))];
    for (const [name, batches] of this.#byRow) if (name >= first && name < end) for (const batch of batches) found.add(batch);
    return found;
  }

  /** `listener` is called once, when the batch is decided or not held any more. Answers how to forget it. */
  onDecided(batch: Batch, listener: () => void): () => void {
    const listeners = this.#waiting.get(batch);
    assert(listeners !== undefined, "the batch is undecided");
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }
}

import { keyText } from "@concord/codec";
import { storedRowKey } from "@concord/quorum";
import { assert, RotatingMap } from "@concord/runtime";

/** Who waits for a batch: most are waited for by no reader. */
interface Waiting {
  listeners: Set<() => void> | undefined;
}

/** Which rows the undecided batches of a node write, and who waits for them. */
export class UndecidedRows<Batch extends object> {
  readonly #byRow = new RotatingMap<string, Batch[]>();
  readonly #waiting = new RotatingMap<Batch, Waiting>();

  /** Undecided batches. */
  get size(): number {
    return this.#waiting.size;
  }

  /** `names`: its stored keys as texts. */
  add(batch: Batch, names: readonly string[]): void {
    assert(!this.#waiting.has(batch), "a batch is undecided once");
    this.#waiting.set(batch, { listeners: undefined });
    for (const name of names) {
      const batches = this.#byRow.get(name);
      if (batches === undefined) this.#byRow.set(name, [batch]);
      else batches.push(batch);
    }
  }

  /** It is decided, or not held any more. */
  delete(batch: Batch, names: readonly string[]): void {
    for (const name of names) {
      const batches = this.#byRow.get(name);
      const at = batches?.indexOf(batch) ?? -1;
      assert(batches !== undefined && at >= 0, "a row knows the undecided batches that write it");
      if (batches.length === 1) this.#byRow.delete(name);
      else batches.splice(at, 1);
    }
    const waiting = this.#waiting.get(batch);
    assert(waiting !== undefined, "a batch is decided once");
    this.#waiting.delete(batch);
    assert(this.#waiting.size > 0 || this.#byRow.size === 0, "I5: readers wait for undecided batches alone");
    for (const listener of waiting.listeners ?? []) listener();
  }

  /** Batches that write one of the rows. */
  at(rowKeys: readonly Uint8Array[]): ReadonlySet<Batch> {
    const found = new Set<Batch>();
    if (this.#byRow.size === 0) return found;
    for (const key of rowKeys) for (const batch of this.#byRow.get(keyText(storedRowKey(key))) ?? []) found.add(batch);
    return found;
  }

  /** Batches that write a row from `from` to `to`, `to` excluded. */
  between(from: Uint8Array, to: Uint8Array): ReadonlySet<Batch> {
    const found = new Set<Batch>();
    const [first, end] = [keyText(storedRowKey(from)), keyText(storedRowKey(to))];
    for (const [name, batches] of this.#byRow) if (name >= first && name < end) for (const batch of batches) found.add(batch);
    return found;
  }

  /** `listener` is called once, when the batch is decided or not held any more. Answers how to forget it. */
  onDecided(batch: Batch, listener: () => void): () => void {
    const waiting = this.#waiting.get(batch);
    assert(waiting !== undefined, "the batch is undecided");
    const listeners = (waiting.listeners ??= new Set());
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }
}

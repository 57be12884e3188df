import { assert } from "@concord/runtime";
import { compareBytes } from "@concord/codec";
import type { DerivedWrite, KeyRange, KeyValueEntry, KeyValueOperation, Store, SuspectKeys } from "@concord/ports";
import { withinBytes } from "./sorted-bytes.ts";

/** What survives a crash: hand it to the next MemoryKeyValue. */
export interface KeyValueImage {
  readonly entries: readonly KeyValueEntry[];
  /** Opening finds the newest write torn. */
  readonly cutTail?: boolean;
}

let opened = 0;

/**
 * The reference of the KeyValue port: a sorted array. Knows what is synced, so that a test can crash it. As a Store it syncs derived
 * writes too: each write is a checkpoint.
 */
export class MemoryKeyValue implements Store {
  readonly incarnation = `memory-${(opened += 1)}`;
  cutTail: boolean;
  /** Given by a test; this store refuses nothing by itself. */
  suspects: SuspectKeys = {
    ranges: [],
    refusal: () => undefined,
    clear: () => Promise.resolve(),
    drop: () => Promise.resolve(),
  };
  readonly #checkpointListeners: (() => () => void)[] = [];
  #entries: KeyValueEntry[];
  /** Operations since the last sync. */
  #unsynced: KeyValueOperation[] = [];
  #synced: KeyValueEntry[];
  #open = true;

  constructor(disk: KeyValueImage = { entries: [] }) {
    this.#entries = [...disk.entries];
    this.#synced = [...disk.entries];
    this.cutTail = disk.cutTail ?? false;
  }

  /** The disk as a power cut now would leave it. */
  crash(): KeyValueImage {
    this.#open = false;
    return { entries: this.#synced, cutTail: this.cutTail };
  }

  /** All entries in order: what tests compare. */
  contents(): readonly KeyValueEntry[] {
    return this.#entries.map(copyOf);
  }

  get(key: Uint8Array): Promise<Uint8Array | undefined> {
    return this.#answer(() => this.#find(key));
  }

  getMany(keys: readonly Uint8Array[]): Promise<(Uint8Array | undefined)[]> {
    return this.#answer(() => keys.map((key) => this.#find(key)));
  }

  peek(key: Uint8Array): Uint8Array | undefined | "ask" {
    return this.#open ? this.#find(key) : "ask";
  }

  range(range: KeyRange): Promise<KeyValueEntry[]> {
    return this.#answer(() => {
      const start = lowerBound(this.#entries, range.from);
      const end = Math.max(start, lowerBound(this.#entries, range.to));
      const found =
        range.reverse === true
          ? this.#entries.slice(Math.max(start, end - range.limit), end).reverse()
          : this.#entries.slice(start, Math.min(end, start + range.limit));
      return withinBytes(found, range.bytesMax).map(copyOf);
    });
  }

  batch(operations: readonly KeyValueOperation[], options: { readonly sync: boolean }): Promise<void> {
    return this.#answer(() => {
      for (const operation of operations) {
        const kept =
          operation.kind === "put"
            ? { kind: operation.kind, ...copyOf(operation) }
            : { kind: operation.kind, key: Uint8Array.from(operation.key) };
        applyTo(this.#entries, kept);
        this.#unsynced.push(kept);
      }
      if (!options.sync) return;
      for (const operation of this.#unsynced) applyTo(this.#synced, operation);
      this.#unsynced = [];
    });
  }

  async write(persist: ReadonlyMap<string, KeyValueOperation>, derived: readonly DerivedWrite[]): Promise<void> {
    const checkpointed = this.#checkpointListeners.map((begun) => begun());
    await this.batch([...persist.values(), ...derived], { sync: true });
    for (const done of checkpointed) done();
  }

  onCheckpoint(begun: () => () => void): void {
    this.#checkpointListeners.push(begun);
  }

  caughtUp(): Promise<void> {
    this.cutTail = false;
    return Promise.resolve();
  }

  close(): Promise<void> {
    this.#open = false;
    for (const operation of this.#unsynced) applyTo(this.#synced, operation);
    this.#unsynced = [];
    return Promise.resolve();
  }

  /** What a clean close leaves. */
  closed(): KeyValueImage {
    assert(!this.#open, "the store is closed first");
    return { entries: this.#synced };
  }

  #find(key: Uint8Array): Uint8Array | undefined {
    const entry = this.#entries[lowerBound(this.#entries, key)];
    return entry !== undefined && compareBytes(entry.key, key) === 0 ? Uint8Array.from(entry.value) : undefined;
  }

  async #answer<Answer>(act: () => Answer): Promise<Answer> {
    assert(this.#open, "the store is open");
    return act();
  }
}

function copyOf(entry: { readonly key: Uint8Array; readonly value: Uint8Array }): KeyValueEntry {
  return { key: Uint8Array.from(entry.key), value: Uint8Array.from(entry.value) };
}

function applyTo(entries: KeyValueEntry[], operation: KeyValueOperation): void {
  const at = lowerBound(entries, operation.key);
  const present = at < entries.length && compareBytes(entries[at]!.key, operation.key) === 0;
  if (operation.kind === "put") entries.splice(at, present ? 1 : 0, { key: operation.key, value: operation.value });
  else if (present) entries.splice(at, 1);
}

/** Index of the first entry whose key is not below `key`. */
function lowerBound(entries: readonly KeyValueEntry[], key: Uint8Array): number {
  let low = 0;
  let high = entries.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (compareBytes(entries[middle]!.key, key) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

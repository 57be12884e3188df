export type KeyValueOperation =
  | { readonly kind: "put"; readonly key: Uint8Array; readonly value: Uint8Array }
  | { readonly kind: "delete"; readonly key: Uint8Array };

export interface KeyRange {
  /** Inclusive lower bound, bytewise. */
  readonly from: Uint8Array;
  /** Exclusive upper bound, bytewise. */
  readonly to: Uint8Array;
  /** At most this many entries. */
  readonly limit: number;
  /** The answer also ends with the entry that takes its keys and values over this many bytes. */
  readonly bytesMax?: number;
  readonly reverse?: boolean;
}

export interface KeyValueEntry {
  readonly key: Uint8Array;
  readonly value: Uint8Array;
}

/**
 * An ordered byte store on one machine. Batches are atomic and applied in call order. With `sync: true` the promise resolves after
 * the batch, and every earlier one, is on disk. A rejected batch (STORE_FAILED, applied: unknown) may be there after a restart, and
 * every later write is refused until then: crash and recover.
 */
export interface KeyValue {
  get(key: Uint8Array): Promise<Uint8Array | undefined>;
  /** Answers in the order of `keys`. */
  getMany(keys: readonly Uint8Array[]): Promise<(Uint8Array | undefined)[]>;
  range(range: KeyRange): Promise<KeyValueEntry[]>;
  batch(operations: readonly KeyValueOperation[], options: { readonly sync: boolean }): Promise<void>;
  close(): Promise<void>;
}

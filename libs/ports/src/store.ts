import type { KeyRange, KeyValue, KeyValueEntry, KeyValueOperation } from "./key-value.ts";
import type { Checkpoints } from "./store-step.ts";
import type { SuspectKeys } from "./suspect-keys.ts";

/**
 * An ordered byte store that lies behind a store's journal. Batches are atomic, applied in call order, and visible when they resolve; a
 * crash may take back any of them and keep later ones, unless a `flush` that was called after them has resolved. A rejected batch or
 * flush (STORE_FAILED, applied: unknown) may have happened; everything later is refused until the store is opened again.
 */
export interface BackingStore {
  /** Answers in the order of `keys`. */
  getMany(keys: readonly Uint8Array[]): Promise<(Uint8Array | undefined)[]>;
  range(range: KeyRange): Promise<KeyValueEntry[]>;
  batch(operations: readonly KeyValueOperation[]): Promise<void>;
  /** Every batch that resolved before the call is on disk when it resolves. */
  flush(): Promise<void>;
  /** Names what lies on disk now, for `holds` of a later opening. Short; only the adapter reads it. */
  evidence(): Promise<Uint8Array>;
  /**
   * True: when this store was opened, all that had been flushed when `evidence` was made was there, byte for byte as it was written. False:
   * it was not, or was opened since then, so that it cannot be known.
   */
  holds(evidence: Uint8Array): boolean;
  /** The store is going to be closed: batches and flushes that wait for space reject with STORAGE_FULL. Undefined: none wait. */
  refuseWaiting?(): void;
  close(): Promise<void>;
}

/** A write that a crash may take back (`StoreEffects.derived`). Its bytes must not change any more. */
export type DerivedWrite = KeyValueOperation & {
  /** `keyHash` of the key (codec). */
  readonly hash: number;
};

/** A KeyValue whose every batch is durable when it resolves, and what steps need besides. */
export interface Store extends KeyValue, Checkpoints {
  /** Names this opening: another one, of this store or any other, has another name. Hexadecimal. */
  readonly incarnation: string;
  /**
   * This opening or an earlier one cut bytes off the newest end, and `caughtUp` was not called since: a write that a crash tore, never
   * acknowledged, or else rot in the last group, which looks the same. A replica that must not forget what it acknowledged catches up from
   * others before it votes.
   */
  readonly cutTail: boolean;
  /** Keys of which a damaged block may have held the newest values: reads that touch them are refused. */
  readonly suspects: SuspectKeys;
  /** As `get`, at once; "ask": only `get` can tell. The caller must not change the value. */
  peek(key: Uint8Array): Uint8Array | undefined | "ask";
  /** The store is going to be closed: writes that wait for space are refused, and what comes behind them. Undefined: none wait. */
  refuseWaiting?(): void;
  /** What the cuts may have taken is there again, or cannot be had: durable when it resolves. */
  caughtUp(): Promise<void>;
  /**
   * As `batch`, by the texts of the keys (`keyText` of codec), with writes that take effect together with `persist` and that a crash may take
   * back, in their order, each key once.
   * LIMIT_EXCEEDED (applied: no): more bytes than one record of the journal holds.
   */
  write(persist: ReadonlyMap<string, KeyValueOperation>, derived: readonly DerivedWrite[]): Promise<void>;
}

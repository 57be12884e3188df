import { compareBytes } from "@concord/codec";
import { assert, ConcordError } from "@concord/runtime";
import type { BackingStore, KeyRange, KeyValueEntry, KeyValueOperation } from "@concord/ports";
import { SortedBytes } from "./sorted-bytes.ts";

/** How many of a log file's batches a power cut leaves, oldest first; asked once per file. */
export type LogChooser = (batches: number) => number;

interface LoggedBatch {
  readonly operations: readonly KeyValueOperation[];
  readonly undo: readonly { readonly key: Uint8Array; readonly value: Uint8Array | undefined }[];
}

/** What an opening says of the files: `evidence` and `holds` of a BackingStore. */
export interface ModelOpening {
  readonly evidence: Uint8Array;
  holds(evidence: Uint8Array): boolean;
}

/**
 * What LevelDB leaves on a disk: batches go to a log file; a full one is closed without a sync and another begun, while its values are
 * written to a table, which is synced. A power cut keeps a prefix of each log file by itself.
 */
export class BackingModel {
  readonly entries = new SortedBytes();
  readonly #logBytesMax: number;
  /** Oldest first; the newest takes the next batch. */
  #logs: LoggedBatch[][] = [[]];
  #logBytes = 0;
  #openings = 0;

  constructor(logBytesMax: number) {
    this.#logBytesMax = logBytesMax;
  }

  /** Whether a full log's table is not written yet. */
  get hasFullLog(): boolean {
    return this.#logs.length > 1;
  }

  get unsyncedBatches(): number {
    return this.#logs.reduce((sum, log) => sum + log.length, 0);
  }

  /** Nothing that was flushed gets lost between two openings, but for `damage`. */
  open(): ModelOpening {
    const before = this.#openings;
    this.#openings += 1;
    return { evidence: nameOf(this.#openings), holds: (evidence) => compareBytes(evidence, nameOf(before)) === 0 };
  }

  /** Findings of an opening now, without one. */
  look(): ModelOpening {
    const now = nameOf(this.#openings);
    return { evidence: now, holds: (evidence) => compareBytes(evidence, now) === 0 };
  }

  /** The disk changes what lies on it. With `isNoticed` the next opening finds that its files are not as they were written. */
  damage(operations: readonly KeyValueOperation[], { isNoticed }: { readonly isNoticed: boolean }): void {
    this.apply(operations);
    if (isNoticed) this.#openings += 1;
  }

  apply(operations: readonly KeyValueOperation[]): void {
    if (this.#logBytes >= this.#logBytesMax) this.#rotate();
    this.#logs.at(-1)!.push(applyTo(this.entries, operations));
    for (const operation of operations) this.#logBytes += operation.key.length + (operation.kind === "put" ? operation.value.length : 0);
  }

  /** The oldest full log's table is on disk. */
  writeTable(): void {
    assert(this.hasFullLog, "only a full log becomes a table");
    this.#logs.shift();
  }

  flush(): void {
    this.#logs = [[]];
    this.#logBytes = 0;
  }

  /** A power cut, and what opening makes of it. Answers how many batches are lost. */
  crash(choose: LogChooser): number {
    const logs = this.#logs;
    for (const log of logs.toReversed()) for (const batch of log.toReversed()) rollBack(this.entries, batch);
    let lost = 0;
    for (const log of logs) {
      const kept = choose(log.length);
      for (const { operations } of log.slice(0, kept)) applyTo(this.entries, operations);
      lost += log.length - kept;
    }
    this.flush();
    return lost;
  }

  #rotate(): void {
    this.#logs.push([]);
    this.#logBytes = 0;
  }
}

function nameOf(opening: number): Uint8Array {
  return Uint8Array.of(opening >> 16, opening >> 8, opening);
}

function applyTo(entries: SortedBytes, operations: readonly KeyValueOperation[]): LoggedBatch {
  const undo = operations.map((operation) => {
    const { key } = operation;
    return { key, value: operation.kind === "put" ? entries.put(key, operation.value) : entries.delete(key) };
  });
  return { operations, undo };
}

function rollBack(entries: SortedBytes, batch: LoggedBatch): void {
  for (const { key, value } of batch.undo.toReversed()) {
    if (value === undefined) entries.delete(key);
    else entries.put(key, value);
  }
}

export function copyOfOperation(operation: KeyValueOperation): KeyValueOperation {
  if (operation.kind === "delete") return { kind: "delete", key: operation.key.slice() };
  return { kind: "put", key: operation.key.slice(), value: operation.value.slice() };
}

/** The reference of the BackingStore port. The model outlives it: a test crashes that, and opens another store over it. */
export class MemoryBackingStore implements BackingStore {
  readonly model: BackingModel;
  /** The next flush fails, after it did nothing. */
  failNextFlush = false;
  readonly #opening: ModelOpening;
  #state: "open" | "failed" | "closed" = "open";

  constructor(model: BackingModel = new BackingModel(Number.MAX_SAFE_INTEGER), opening: ModelOpening = model.open()) {
    this.model = model;
    this.#opening = opening;
  }

  async getMany(keys: readonly Uint8Array[]): Promise<(Uint8Array | undefined)[]> {
    this.#assertOpen();
    return keys.map((key) => this.model.entries.get(key));
  }

  async range(range: KeyRange): Promise<KeyValueEntry[]> {
    this.#assertOpen();
    return this.model.entries.range(range);
  }

  async batch(operations: readonly KeyValueOperation[]): Promise<void> {
    this.#checkWritable();
    this.model.apply(operations.map(copyOfOperation));
  }

  async flush(): Promise<void> {
    this.#checkWritable();
    if (this.failNextFlush) {
      this.failNextFlush = false;
      this.#state = "failed";
      throw new ConcordError("STORE_FAILED", "the flush failed");
    }
    this.model.flush();
  }

  async evidence(): Promise<Uint8Array> {
    this.#assertOpen();
    return this.#opening.evidence;
  }

  holds(evidence: Uint8Array): boolean {
    return this.#opening.holds(evidence);
  }

  async close(): Promise<void> {
    this.#state = "closed";
  }

  #assertOpen(): void {
    assert(this.#state !== "closed", "the store is open");
  }

  #checkWritable(): void {
    this.#assertOpen();
    if (this.#state === "failed") throw new ConcordError("STORE_FAILED", "an earlier write failed", { applied: "no" });
  }
}

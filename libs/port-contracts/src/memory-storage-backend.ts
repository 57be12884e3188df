import {
  OUTCOME_BUCKET_MS,
  OUTCOMES_TABLE,
  type Batches,
  type GroupLog,
  type ObjectMetadata,
  type RowStore,
  type StorageBackend,
} from "@concord/ports";
import { ConcordError } from "@concord/runtime";
import { MemoryBatches } from "./memory-batches.ts";
import { MemoryGroupLog } from "./memory-group-log.ts";
import { MemoryObjectMetadata } from "./memory-object-metadata.ts";
import { MemoryRowStore } from "./memory-row-store.ts";

/** What a backend in memory keeps: outlives the backend, as a disk does. */
export interface MemoryStorage {
  readonly rows: MemoryRowStore;
  readonly groupLog: MemoryGroupLog;
  readonly batches: MemoryBatches;
  readonly objectMetadata: MemoryObjectMetadata;
}

export function memoryStorage(): MemoryStorage {
  const rows = new MemoryRowStore();
  return { rows, groupLog: new MemoryGroupLog(), batches: new MemoryBatches(rows), objectMetadata: new MemoryObjectMetadata() };
}

/** The reference of the StorageBackend port: one node, one copy in memory. */
export class MemoryStorageBackend implements StorageBackend {
  readonly storage: MemoryStorage;
  #state: "opened" | "serving" | "stopped" = "opened";

  constructor(storage: MemoryStorage = memoryStorage()) {
    this.storage = storage;
  }

  get rows(): RowStore {
    return this.#serving().rows;
  }

  get groupLog(): GroupLog {
    return this.#serving().groupLog;
  }

  get batches(): Batches {
    return this.#serving().batches;
  }

  get objectMetadata(): ObjectMetadata {
    return this.#serving().objectMetadata;
  }

  get ready(): boolean {
    return this.#state === "serving";
  }

  async start(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    this.#state = "serving";
  }

  async purge(beforeMs: number): Promise<number> {
    const firstKept = BigInt(Math.floor(beforeMs / OUTCOME_BUCKET_MS));
    return this.#serving().rows.forget(({ table, partition: [, bucket] }) => {
      return table === OUTCOMES_TABLE && bucket?.kind === "bigint" && bucket.value < firstKept;
    });
  }

  async stop(): Promise<void> {
    this.#state = "stopped";
  }

  #serving(): MemoryStorage {
    if (this.#state === "serving") return this.storage;
    throw new ConcordError(this.#state === "opened" ? "STARTING" : "DRAINING", "the backend does not serve");
  }
}

// The suite itself: the reference keeps every promise, each seeded fault is found.
import assert from "node:assert/strict";
import { test } from "node:test";
import { OUTCOME_BUCKET_MS, OUTCOMES_TABLE, type RowStore } from "@concord/ports";
import { failedCases } from "./contract.ts";
import { MemoryStorageBackend, memoryStorage, type MemoryStorage } from "./memory-storage-backend.ts";
import { STORAGE_BACKEND_CASES, storageBackendContract, type StorageBackendSubject } from "./storage-backend-contract.ts";

type Make = (storage: MemoryStorage) => MemoryStorageBackend;

function subjectOf(make: Make): () => Promise<StorageBackendSubject> {
  return async () => {
    const storage = memoryStorage();
    return { backend: make(storage), reopen: async () => make(storage) };
  };
}

storageBackendContract(
  test,
  subjectOf((storage) => new MemoryStorageBackend(storage)),
);

class AnswersBeforeStart extends MemoryStorageBackend {
  override get rows(): RowStore {
    return this.storage.rows;
  }
}

class ReadyFromTheBeginning extends MemoryStorageBackend {
  override get ready(): boolean {
    return true;
  }
}

class IgnoresTheSignal extends MemoryStorageBackend {
  override start(): Promise<void> {
    return super.start(new AbortController().signal);
  }
}

class DoesNotStop extends MemoryStorageBackend {
  override async stop(): Promise<void> {
    await Promise.resolve();
  }
}

class StopsOnce extends MemoryStorageBackend {
  #stops = 0;

  override async stop(): Promise<void> {
    if ((this.#stops += 1) > 1) throw new Error("stopped already");
    await super.stop();
  }
}

class PurgesTheWholeTable extends MemoryStorageBackend {
  override async purge(): Promise<number> {
    return super.purge(Number.MAX_SAFE_INTEGER);
  }
}

class PurgesTheRunningBucket extends MemoryStorageBackend {
  override purge(beforeMs: number): Promise<number> {
    return super.purge(beforeMs + OUTCOME_BUCKET_MS - 1);
  }
}

class PurgesByPrefix extends MemoryStorageBackend {
  override async purge(beforeMs: number): Promise<number> {
    const removed = await super.purge(beforeMs);
    return removed + this.storage.rows.forget(({ table }) => table.startsWith(`${OUTCOMES_TABLE}_`));
  }
}

class PurgesOneGroup extends MemoryStorageBackend {
  override async purge(beforeMs: number): Promise<number> {
    return this.storage.rows.forget(({ table, partition: [group, bucket] }) => {
      const isOld = bucket?.kind === "bigint" && bucket.value < BigInt(Math.floor(beforeMs / OUTCOME_BUCKET_MS));
      return table === OUTCOMES_TABLE && isOld && group?.kind === "text" && group.value === "g1";
    });
  }
}

const FAULTS = [
  AnswersBeforeStart,
  ReadyFromTheBeginning,
  IgnoresTheSignal,
  DoesNotStop,
  StopsOnce,
  PurgesTheWholeTable,
  PurgesTheRunningBucket,
  PurgesByPrefix,
  PurgesOneGroup,
];

for (const Fault of FAULTS) {
  test(`StorageBackend contract: seeded fault ${Fault.name}: found`, async () => {
    assert.notDeepEqual(
      await failedCases(
        STORAGE_BACKEND_CASES,
        subjectOf((storage) => new Fault(storage)),
      ),
      [],
    );
  });
}

test("StorageBackend contract: seeded fault loses everything at restart: found", async () => {
  const open = async (): Promise<StorageBackendSubject> => ({
    backend: new MemoryStorageBackend(),
    reopen: async () => new MemoryStorageBackend(),
  });
  assert.notDeepEqual(await failedCases(STORAGE_BACKEND_CASES, open), []);
});

// The suite itself: the reference keeps every promise, each seeded fault is found.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { KeyValueOperation } from "@concord/ports";
import { BACKING_STORE_CASES, backingStoreContract, type BackingStoreSubject } from "./backing-store-contract.ts";
import { failedCases } from "./contract.ts";
import { BackingModel, MemoryBackingStore } from "./memory-backing-store.ts";

const LOG_BYTES = 16 * 1024;

/** A crash loses what it may. */
function subjectOf(make: (model: BackingModel) => MemoryBackingStore): () => Promise<BackingStoreSubject> {
  return async () => {
    const model = new BackingModel(LOG_BYTES);
    const reopen = async (): Promise<MemoryBackingStore> => new MemoryBackingStore(model);
    return {
      store: make(model),
      reopen,
      crash: () => {
        model.crash(() => 0);
        return reopen();
      },
    };
  };
}

class FlushDoesNothing extends MemoryBackingStore {
  override async flush(): Promise<void> {}
}

/** What LevelDB's synced batch does: the newest log file is synced, those before it are not. */
class FlushSyncsTheNewestLog extends MemoryBackingStore {
  #bytes = 0;
  #isLost = false;

  override async batch(operations: readonly KeyValueOperation[]): Promise<void> {
    await super.batch(operations);
    for (const operation of operations) if (operation.kind === "put") this.#bytes += operation.value.length;
    if (this.#bytes > LOG_BYTES) this.#isLost = true;
  }

  override async flush(): Promise<void> {
    if (!this.#isLost) await super.flush();
  }
}

class DeletesComeLate extends MemoryBackingStore {
  override async flush(): Promise<void> {
    await super.flush();
    this.#late.splice(0).forEach((operation) => this.model.apply([operation]));
  }

  readonly #late: KeyValueOperation[] = [];

  override async batch(operations: readonly KeyValueOperation[]): Promise<void> {
    await super.batch(operations.filter(({ kind }) => kind === "put"));
    this.#late.push(...operations.filter(({ kind }) => kind === "delete"));
  }
}

class EvidenceAlwaysHolds extends MemoryBackingStore {
  override holds(): boolean {
    return true;
  }
}

class EvidenceNamesNothing extends MemoryBackingStore {
  override async evidence(): Promise<Uint8Array> {
    return new Uint8Array();
  }
}

class ReadsLag extends MemoryBackingStore {
  #late: readonly KeyValueOperation[] = [];

  override async batch(operations: readonly KeyValueOperation[]): Promise<void> {
    await super.batch(this.#late);
    this.#late = operations;
  }
}

backingStoreContract(
  test,
  subjectOf((model) => new MemoryBackingStore(model)),
);

for (const Fault of [FlushDoesNothing, FlushSyncsTheNewestLog, DeletesComeLate, EvidenceAlwaysHolds, EvidenceNamesNothing, ReadsLag]) {
  test(`BackingStore contract: seeded fault ${Fault.name}: found`, async () => {
    const failed = await failedCases(
      BACKING_STORE_CASES,
      subjectOf((model) => new Fault(model)),
    );
    assert.notDeepEqual(failed, []);
  });
}

test("BackingModel: power cut: each log file keeps a prefix by itself, a table all", () => {
  const model = new BackingModel(1);
  const put = (n: number): void => model.apply([{ kind: "put", key: Uint8Array.of(n), value: Uint8Array.of(n) }]);
  put(1);
  put(2);
  model.writeTable();
  put(3);
  assert.equal(model.unsyncedBatches, 2);
  let files = 0;
  assert.equal(
    model.crash(() => ((files += 1) === 1 ? 0 : 1)),
    1,
  );
  assert.deepEqual(
    model.entries.range({ from: new Uint8Array(), to: Uint8Array.of(9), limit: 9 }).map(({ key }) => key[0]),
    [1, 3],
  );
});

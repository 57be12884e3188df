// The suite itself: the reference keeps every promise, each seeded fault is found.
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryKeyValue } from "./memory-key-value.ts";
import { compareBytes } from "@concord/codec";
import type { KeyRange, KeyValue, KeyValueEntry, KeyValueOperation } from "@concord/ports";
import { failedCases } from "./contract.ts";
import { KEY_VALUE_CASES, keyValueContract, type KeyValueSubject } from "./key-value-contract.ts";

function subjectOf(make: (memory: MemoryKeyValue) => KeyValue): () => Promise<KeyValueSubject> {
  return async () => {
    const memory = new MemoryKeyValue();
    return {
      store: make(memory),
      async reopen() {
        await memory.close();
        return new MemoryKeyValue(memory.closed());
      },
      crash: async () => new MemoryKeyValue(memory.crash()),
    };
  };
}

/** A correct store to inherit the other methods of a fault from. */
class Delegate implements KeyValue {
  readonly memory: MemoryKeyValue;

  constructor(memory: MemoryKeyValue) {
    this.memory = memory;
  }

  get(key: Uint8Array): Promise<Uint8Array | undefined> {
    return this.memory.get(key);
  }

  getMany(keys: readonly Uint8Array[]): Promise<(Uint8Array | undefined)[]> {
    return this.memory.getMany(keys);
  }

  range(range: KeyRange): Promise<KeyValueEntry[]> {
    return this.memory.range(range);
  }

  batch(operations: readonly KeyValueOperation[], options: { readonly sync: boolean }): Promise<void> {
    return this.memory.batch(operations, options);
  }

  close(): Promise<void> {
    return this.memory.close();
  }
}

const after = (key: Uint8Array): Uint8Array => Uint8Array.from([...key, 0]);

class UpperBoundIncluded extends Delegate {
  override range(range: KeyRange): Promise<KeyValueEntry[]> {
    return this.memory.range({ ...range, to: after(range.to) });
  }
}

class LowerBoundExcluded extends Delegate {
  override range(range: KeyRange): Promise<KeyValueEntry[]> {
    return this.memory.range({ ...range, from: after(range.from) });
  }
}

class ReverseTakesTheFirst extends Delegate {
  override async range(range: KeyRange): Promise<KeyValueEntry[]> {
    const entries = await this.memory.range({ ...range, reverse: false });
    return range.reverse === true ? entries.toReversed() : entries;
  }
}

class IgnoresBytesMax extends Delegate {
  override range({ bytesMax: _, ...range }: KeyRange): Promise<KeyValueEntry[]> {
    return this.memory.range(range);
  }
}

class AnswersInKeyOrder extends Delegate {
  override getMany(keys: readonly Uint8Array[]): Promise<(Uint8Array | undefined)[]> {
    return this.memory.getMany(keys.toSorted(compareBytes));
  }
}

class SplitsBatches extends Delegate {
  override async batch(operations: readonly KeyValueOperation[], options: { readonly sync: boolean }): Promise<void> {
    for (const operation of operations) {
      await this.memory.batch([operation], options);
      for (let turn = 0; turn < 3; turn += 1) await Promise.resolve();
    }
  }
}

class NeverSyncs extends Delegate {
  override batch(operations: readonly KeyValueOperation[]): Promise<void> {
    return this.memory.batch(operations, { sync: false });
  }
}

class KeepsTheCallersBuffers extends Delegate {
  readonly #kept = new Map<string, Uint8Array>();

  override async batch(operations: readonly KeyValueOperation[], options: { readonly sync: boolean }): Promise<void> {
    for (const operation of operations) {
      if (operation.kind === "put") this.#kept.set(operation.key.join(), operation.value);
      else this.#kept.delete(operation.key.join());
    }
    await this.memory.batch(operations, options);
  }

  override get(key: Uint8Array): Promise<Uint8Array | undefined> {
    return Promise.resolve(this.#kept.get(key.join()));
  }
}

class ForgetsDeletes extends Delegate {
  override batch(operations: readonly KeyValueOperation[], options: { readonly sync: boolean }): Promise<void> {
    return this.memory.batch(
      operations.filter((operation) => operation.kind === "put"),
      options,
    );
  }
}

class EmptyIsAbsent extends Delegate {
  override async get(key: Uint8Array): Promise<Uint8Array | undefined> {
    const value = await this.memory.get(key);
    return value?.length === 0 ? undefined : value;
  }
}

keyValueContract(
  test,
  subjectOf((memory) => memory),
);

test("KeyValue contract: size: at least 20 cases", () => assert.ok(KEY_VALUE_CASES.length >= 20));

const FAULTS = [
  UpperBoundIncluded,
  LowerBoundExcluded,
  ReverseTakesTheFirst,
  IgnoresBytesMax,
  AnswersInKeyOrder,
  SplitsBatches,
  NeverSyncs,
  KeepsTheCallersBuffers,
  ForgetsDeletes,
  EmptyIsAbsent,
];

for (const Fault of FAULTS) {
  test(`KeyValue contract: seeded fault ${Fault.name}: found`, async () => {
    assert.notDeepEqual(
      await failedCases(
        KEY_VALUE_CASES,
        subjectOf((memory) => new Fault(memory)),
      ),
      [],
    );
  });
}

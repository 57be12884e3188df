import type { BackingStore, KeyValue } from "@concord/ports";
import { expectEqual, registerContract, type ContractCase, type TestFunction } from "./contract.ts";
import { KEY_VALUE_CASES, type KeyValueSubject } from "./key-value-contract.ts";

/** An empty store, and what tests can do to it. */
export interface BackingStoreSubject {
  readonly store: BackingStore;
  /** Closes the store and opens it again. */
  reopen(): Promise<BackingStore>;
  /** Opens what a crash at this moment would leave. */
  crash(): Promise<BackingStore>;
}

type Case = ContractCase<BackingStoreSubject>;

const numbered = (n: number): Uint8Array => Uint8Array.of(n >> 8, n & 0xff);
const EVERYTHING = { from: new Uint8Array(), to: Uint8Array.of(255, 255), limit: 10_000 };

/** A synced batch is one with a flush behind it: so every promise of a KeyValue is one of a backing store. */
function flushed(store: BackingStore): KeyValue {
  return {
    get: async (key) => (await store.getMany([key]))[0],
    getMany: (keys) => store.getMany(keys),
    range: (range) => store.range(range),
    async batch(operations, { sync }) {
      await store.batch(operations);
      if (sync) await store.flush();
    },
    close: () => store.close(),
  };
}

function keyValueCase({ name, run }: ContractCase<KeyValueSubject>): Case {
  return {
    name,
    run: (open) =>
      run(async () => {
        const { store, reopen, crash } = await open();
        return { store: flushed(store), reopen: async () => flushed(await reopen()), crash: async () => flushed(await crash()) };
      }),
  };
}

const FLUSH_CASES: readonly Case[] = [
  {
    name: "flush: many batches before it: all are there after a crash, however many files they fill",
    async run(open) {
      const { store, crash } = await open();
      const value = new Uint8Array(1024);
      for (let n = 0; n < 200; n += 1) await store.batch([{ kind: "put", key: numbered(n), value }]);
      await store.flush();
      await store.batch([{ kind: "put", key: numbered(500), value }]);
      const found = await (await crash()).range({ ...EVERYTHING, to: numbered(500) });
      expectEqual(found.length, 200, "values that were flushed");
    },
  },
  {
    name: "flush: nothing was written: resolves, and again",
    async run(open) {
      const { store } = await open();
      await store.flush();
      await store.flush();
      expectEqual(await store.range(EVERYTHING), [], "range");
    },
  },
  {
    name: "flush: a delete before it: the value is gone after a crash",
    async run(open) {
      const { store, crash } = await open();
      await store.batch([{ kind: "put", key: numbered(1), value: numbered(1) }]);
      await store.flush();
      await store.batch([{ kind: "delete", key: numbered(1) }]);
      await store.flush();
      expectEqual(await (await crash()).getMany([numbered(1)]), [undefined], "getMany");
    },
  },
];

const EVIDENCE_CASES: readonly Case[] = [
  {
    name: "evidence: the store is closed and opened: it holds; none does not, nor that of the opening itself",
    async run(open) {
      const { store, reopen } = await open();
      await store.batch([{ kind: "put", key: numbered(1), value: numbered(1) }]);
      await store.flush();
      const first = await store.evidence();
      expectEqual(store.holds(first), false, "holds what this very opening made");
      const second = await reopen();
      expectEqual([second.holds(first), second.holds(new Uint8Array())], [true, false], "holds after one opening");
      expectEqual(second.holds(await second.evidence()), false, "holds what the second opening made");
    },
  },
  {
    name: "evidence: batches and flushes behind it, then a crash: it holds",
    async run(open) {
      const { store, crash } = await open();
      const evidence = await store.evidence();
      const value = new Uint8Array(1024);
      for (let n = 0; n < 100; n += 1) {
        await store.batch([{ kind: "put", key: numbered(n), value }]);
        if (n % 20 === 0) await store.flush();
      }
      expectEqual((await crash()).holds(evidence), true, "holds");
    },
  },
];

export const BACKING_STORE_CASES: readonly Case[] = [...KEY_VALUE_CASES.map(keyValueCase), ...FLUSH_CASES, ...EVIDENCE_CASES];

/** Registers one test per promise of the BackingStore port. `open` gives an empty store each time. */
export function backingStoreContract(test: TestFunction, open: () => Promise<BackingStoreSubject>): void {
  registerContract(test, "BackingStore", BACKING_STORE_CASES, open);
}

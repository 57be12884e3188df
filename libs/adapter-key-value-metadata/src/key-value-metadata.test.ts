import assert from "node:assert/strict";
import { test } from "node:test";
import {
  failedCases,
  MemoryKeyValue,
  OBJECT_METADATA_CASES,
  objectMetadataContract,
  referenceCrc32c as checksum,
  type ObjectMetadataSubject,
} from "@concord/port-contracts";
import type { KeyValueEntry, MetadataCommit, StoreStep } from "@concord/ports";
import { ConcordError, silentLog, toHex, type Log } from "@concord/runtime";
import { KeyValueMetadata, type MetadataStore } from "./key-value-metadata.ts";
import { COMMIT_BYTES_MAX, COMMIT_ROWS_MAX } from "./limits.ts";

/** Steps one after the other, each with a sync of its own. */
class SerialSteps implements MetadataStore {
  readonly #store: MemoryKeyValue;
  readonly #sync: boolean;
  #last: Promise<unknown> = Promise.resolve();

  constructor(store: MemoryKeyValue, sync = true) {
    this.#store = store;
    this.#sync = sync;
  }

  submit<Reply>(step: StoreStep<Reply>): Promise<Reply> {
    const done = this.#last.then(async () => {
      const { persist, reply } = step.run(await this.#store.getMany(step.load));
      await this.#store.batch(persist, { sync: this.#sync });
      return reply;
    });
    this.#last = done.catch(() => undefined);
    return done;
  }

  getSynced(keys: readonly Uint8Array[]): Promise<(Uint8Array | undefined)[]> {
    return this.#store.getMany(keys);
  }

  rangeSynced(range: Parameters<MetadataStore["rangeSynced"]>[0]): Promise<KeyValueEntry[]> {
    return this.#store.range(range);
  }
}

const over = (store: MetadataStore, log: Log = silentLog): KeyValueMetadata => new KeyValueMetadata({ store, checksum, log });

function subject(sync: boolean): () => Promise<ObjectMetadataSubject> {
  return async () => {
    const store = new MemoryKeyValue();
    return { metadata: over(new SerialSteps(store, sync)), crash: async () => over(new SerialSteps(new MemoryKeyValue(store.crash()))) };
  };
}

objectMetadataContract(test, subject(true));

test("seeded fault: batches that are not synced: the contract finds it", async () => {
  const failed = await failedCases(OBJECT_METADATA_CASES, subject(false));
  assert.deepEqual(
    failed.map((name) => name.split(":")[0]),
    ["crash", "crash", "crash"],
  );
});

const KEY = Uint8Array.of(0x10, 0x61);
const put = (commit: bigint, value: Uint8Array = Uint8Array.of(1)): MetadataCommit => ({
  partition: "b/0",
  conditions: [],
  writes: [
    { kind: "put", row: { key: KEY, version: { commit, guid: 2n }, value } },
    { kind: "add", key: Uint8Array.of(2), amounts: [1n, -1n] },
  ],
});

test("format 1: a row and a counter: exactly these bytes", async () => {
  const store = new MemoryKeyValue();
  await over(new SerialSteps(store)).commit(put(5n));
  assert.deepEqual(
    store.contents().map(({ key, value }) => [toHex(key), toHex(value)]),
    [
      ["01622f3000011061", "01e7f81e260000000000000005000000000000000201"],
      ["02622f30000102", "0155553452020000000000000001ffffffffffffffff"],
    ],
  );
});

test("[OGD4] one commit: one step that writes all", async () => {
  const steps: StoreStep<unknown>[] = [];
  const serial = new SerialSteps(new MemoryKeyValue());
  const store: MetadataStore = {
    submit: (step) => {
      steps.push(step);
      return serial.submit(step);
    },
    getSynced: (keys) => serial.getSynced(keys),
    rangeSynced: (range) => serial.rangeSynced(range),
  };
  await over(store).commit({ ...put(5n), conditions: [{ key: KEY, version: undefined }] });
  assert.equal(steps.length, 1);
  assert.equal(steps[0]!.load.length, 2);
});

test("[SEC6] corrupt row: every bit of it: CORRUPT_DATA, reported, left where it is", async () => {
  const store = new MemoryKeyValue();
  const reports: string[] = [];
  const metadata = over(new SerialSteps(store), { ...silentLog, error: (message) => void reports.push(message) });
  await metadata.commit(put(5n));
  const [row] = store.contents();
  for (let at = 0; at < row!.value.length; at += 1) {
    const value = row!.value.slice();
    value[at]! ^= 0x40;
    await store.batch([{ kind: "put", key: row!.key, value }], { sync: true });
    reports.length = 0;
    const isCorrupt = (thrown: unknown): boolean =>
      thrown instanceof ConcordError && thrown.code === "CORRUPT_DATA" && thrown.metadata["key"] === toHex(KEY);
    await assert.rejects(metadata.read("b/0", [KEY]), isCorrupt);
    await assert.rejects(metadata.range("b/0", { from: Uint8Array.of(), to: Uint8Array.of(255), limit: 9 }), isCorrupt);
    await assert.rejects(metadata.commit({ ...put(6n), conditions: [{ key: KEY, version: undefined }] }), isCorrupt);
    assert.equal(reports.length, 3);
    assert.deepEqual(store.contents()[0]!.value, value);
  }
});

test("corrupt rows: a range that passes over them: names each, its pages are full, forwards and backwards", async () => {
  const store = new MemoryKeyValue();
  const metadata = over(new SerialSteps(store));
  const keys = Array.from({ length: 20 }, (_, at) => Uint8Array.of(at));
  for (const key of keys)
    await metadata.commit({
      partition: "b/0",
      conditions: [],
      writes: [{ kind: "put", row: { key, version: { commit: 1n, guid: 1n }, value: key } }],
    });
  const bad = [0, 3, 4, 5, 19];
  const rows = store.contents();
  for (const at of bad) await store.batch([{ kind: "put", key: rows[at]!.key, value: Uint8Array.of(1, 2, 3) }], { sync: true });
  for (const reverse of [false, true]) {
    const unreadable: number[] = [];
    const onUnreadable = (key: Uint8Array): void => void unreadable.push(key[0]!);
    const read = (limit: number): ReturnType<typeof metadata.range> =>
      metadata.range("b/0", { from: Uint8Array.of(), to: Uint8Array.of(255), limit, reverse, onUnreadable });
    const sound = keys.flatMap(([at]) => (bad.includes(at!) ? [] : [at!]));
    const expected = reverse ? sound.toReversed() : sound;
    for (const limit of [1, 3, 4, 15])
      assert.deepEqual(
        (await read(limit)).map(({ key }) => key[0]),
        expected.slice(0, limit),
      );
    unreadable.length = 0;
    assert.equal((await read(16)).length, 15);
    assert.deepEqual(
      unreadable.toSorted((a, b) => a - b),
      bad,
    );
  }
});

test("[OGD2] store failed: unknown when the step may have been written, an error when it was not", async () => {
  const failing = (applied: "no" | "unknown"): KeyValueMetadata =>
    over({
      submit: () => Promise.reject(new ConcordError("STORE_FAILED", "EIO", { applied })),
      getSynced: async () => [],
      rangeSynced: async () => [],
    });
  assert.equal((await failing("unknown").commit(put(1n))).kind, "unknown");
  await assert.rejects(failing("no").commit(put(1n)), (thrown: unknown) => thrown instanceof ConcordError && thrown.applied === "no");
});

test("limits: rows and bytes of a commit: at the limit taken, above it LIMIT_EXCEEDED", async () => {
  const metadata = over(new SerialSteps(new MemoryKeyValue()));
  const deletes = (count: number): MetadataCommit => ({
    partition: "b/0",
    conditions: [],
    writes: Array.from({ length: count }, () => ({ kind: "delete", key: KEY })),
  });
  const isLimit = (thrown: unknown): boolean => thrown instanceof ConcordError && thrown.code === "LIMIT_EXCEEDED";
  await metadata.commit(deletes(COMMIT_ROWS_MAX));
  await assert.rejects(metadata.commit(deletes(COMMIT_ROWS_MAX + 1)), isLimit);
  await assert.rejects(metadata.commit(put(1n, new Uint8Array(COMMIT_BYTES_MAX + 1))), isLimit);
});

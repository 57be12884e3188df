import type { KeyValue, KeyValueEntry, KeyValueOperation } from "@concord/ports";
import { expectEqual, registerContract, type ContractCase, type TestFunction } from "./contract.ts";

/** An empty store, and what tests can do to it. */
export interface KeyValueSubject {
  readonly store: KeyValue;
  /** Closes the store and opens it again. */
  reopen(): Promise<KeyValue>;
  /** Opens what a crash at this moment would leave. */
  crash(): Promise<KeyValue>;
}

type Case = ContractCase<KeyValueSubject>;

const key = (...bytes: number[]): Uint8Array => Uint8Array.from(bytes);
const put = (name: Uint8Array, value: Uint8Array): KeyValueOperation => ({ kind: "put", key: name, value });
const remove = (name: Uint8Array): KeyValueOperation => ({ kind: "delete", key: name });
const SYNC = { sync: true };
const LETTERS = [key(1), key(1, 0), key(1, 255), key(2), key(127), key(128), key(255)];

async function filled(subject: KeyValueSubject): Promise<KeyValue> {
  await subject.store.batch(
    LETTERS.toReversed().map((name) => put(name, Uint8Array.from([...name, 9]))),
    SYNC,
  );
  return subject.store;
}

const keysOf = (entries: readonly KeyValueEntry[]): Uint8Array[] => entries.map((entry) => entry.key.slice());
const EVERYTHING = { from: key(), to: key(255, 255), limit: 1000 };

function simple(name: string, run: (store: KeyValue, subject: KeyValueSubject) => Promise<void>): Case {
  return {
    name,
    async run(open) {
      const subject = await open();
      await run(subject.store, subject);
    },
  };
}

const POINT_CASES: readonly Case[] = [
  simple("get: absent key: undefined", async (store) => expectEqual(await store.get(key(1)), undefined, "get")),
  simple("get: present key: its value", async (_, subject) => {
    const store = await filled(subject);
    expectEqual(await store.get(key(1, 255)), key(1, 255, 9), "get");
  }),
  simple("get: empty value: present and empty", async (store) => {
    await store.batch([put(key(1), key())], SYNC);
    expectEqual(Uint8Array.from((await store.get(key(1))) ?? [1]), key(), "get");
  }),
  simple("get: prefix of a stored key: undefined", async (store) => {
    await store.batch([put(key(1, 2, 3), key(1))], SYNC);
    expectEqual(await store.get(key(1, 2)), undefined, "get");
  }),
  simple("getMany: mixed keys: answers in the order of the keys", async (_, subject) => {
    const store = await filled(subject);
    const values = await store.getMany([key(255), key(3), key(1), key(2)]);
    expectEqual(
      values.map((value) => value && value.slice()),
      [key(255, 9), undefined, key(1, 9), key(2, 9)],
      "getMany",
    );
  }),
  simple("getMany: a key twice: answered twice", async (_, subject) => {
    const store = await filled(subject);
    expectEqual(
      (await store.getMany([key(2), key(2)])).map((value) => value?.slice()),
      [key(2, 9), key(2, 9)],
      "getMany",
    );
  }),
  simple("getMany: no keys: no answers", async (store) => expectEqual(await store.getMany([]), [], "getMany")),
  simple("values: 1 MiB of every byte: round trip", async (store) => {
    const value = Uint8Array.from({ length: 1024 * 1024 }, (_, at) => at % 256);
    await store.batch([put(key(7), value)], SYNC);
    const read = await store.get(key(7));
    expectEqual(read?.length, value.length, "length");
    expectEqual(
      read?.every((byte, at) => byte === value[at]),
      true,
      "content",
    );
  }),
];

const BATCH_CASES: readonly Case[] = [
  simple("batch: overwrite: the new value", async (store) => {
    await store.batch([put(key(1), key(1))], SYNC);
    await store.batch([put(key(1), key(2))], SYNC);
    expectEqual((await store.get(key(1)))?.slice(), key(2), "get");
  }),
  simple("batch: delete: gone", async (_, subject) => {
    const store = await filled(subject);
    await store.batch([remove(key(2))], SYNC);
    expectEqual(await store.get(key(2)), undefined, "get");
    expectEqual((await store.range(EVERYTHING)).length, LETTERS.length - 1, "range");
  }),
  simple("batch: delete of an absent key: harmless", async (store) => {
    await store.batch([remove(key(2)), put(key(3), key(3))], SYNC);
    expectEqual((await store.get(key(3)))?.slice(), key(3), "get");
  }),
  simple("batch: one key put, deleted, put: the last operation wins", async (store) => {
    await store.batch([put(key(1), key(1)), remove(key(1)), put(key(1), key(3))], SYNC);
    expectEqual((await store.get(key(1)))?.slice(), key(3), "get");
    await store.batch([put(key(1), key(4)), remove(key(1))], SYNC);
    expectEqual(await store.get(key(1)), undefined, "get");
  }),
  simple("batch: two in a row without waiting: applied in call order", async (store) => {
    await Promise.all(Array.from({ length: 20 }, (_, at) => store.batch([put(key(1), key(at))], SYNC)));
    expectEqual((await store.get(key(1)))?.slice(), key(19), "get");
  }),
  simple("batch: empty: resolves", async (store) => store.batch([], SYNC)),
  simple("batch: read while it is written: all of it or nothing", async (store) => {
    const names = Array.from({ length: 200 }, (_, at) => key(1, at));
    const written = store.batch(
      names.map((name) => put(name, key(1))),
      SYNC,
    );
    const seen = (await store.range({ from: key(1), to: key(2), limit: 1000 })).length;
    await written;
    expectEqual(seen === 0 || seen === names.length, true, `${seen} of ${names.length} seen`);
  }),
  simple("batch: the caller reuses its buffers: the store keeps what it was given", async (store) => {
    const [name, value] = [key(5), key(6)];
    await store.batch([put(name, value)], SYNC);
    name[0] = 9;
    value[0] = 9;
    expectEqual((await store.get(key(5)))?.slice(), key(6), "get");
    expectEqual(keysOf(await store.range(EVERYTHING)), [key(5)], "keys");
  }),
  simple("get: the caller changes the answer: the store does not", async (_, subject) => {
    const store = await filled(subject);
    (await store.get(key(2)))?.fill(0);
    (await store.range(EVERYTHING))[3]?.value.fill(0);
    expectEqual((await store.get(key(2)))?.slice(), key(2, 9), "get");
  }),
];

const RANGE_CASES: readonly Case[] = [
  simple("range: everything: bytewise order, a prefix before its extensions", async (_, subject) => {
    const store = await filled(subject);
    expectEqual(keysOf(await store.range(EVERYTHING)), LETTERS, "keys");
  }),
  simple("range: bounds: from is inclusive, to is exclusive", async (_, subject) => {
    const store = await filled(subject);
    expectEqual(keysOf(await store.range({ from: key(1, 0), to: key(128), limit: 10 })), LETTERS.slice(1, 5), "keys");
  }),
  simple("range: bounds between keys: what lies between", async (_, subject) => {
    const store = await filled(subject);
    expectEqual(keysOf(await store.range({ from: key(1, 1), to: key(126), limit: 10 })), [key(1, 255), key(2)], "keys");
  }),
  simple("range: limit: the first ones", async (_, subject) => {
    const store = await filled(subject);
    expectEqual(keysOf(await store.range({ ...EVERYTHING, limit: 3 })), LETTERS.slice(0, 3), "keys");
  }),
  simple("range: bytesMax: ends with the entry that passes it, in both directions", async (_, subject) => {
    const store = await filled(subject);
    // Keys and values of the letters: 3, 5, 5, 3, 3, 3, 3 bytes.
    for (const [bytesMax, count] of [
      [1, 1],
      [7, 2],
      [8, 3],
      [24, 7],
      [25, 7],
    ] as const) {
      expectEqual(keysOf(await store.range({ ...EVERYTHING, bytesMax })), LETTERS.slice(0, count), `keys within ${bytesMax}`);
    }
    expectEqual(keysOf(await store.range({ ...EVERYTHING, bytesMax: 5, reverse: true })), LETTERS.slice(-2).toReversed(), "the last ones");
    expectEqual(keysOf(await store.range({ ...EVERYTHING, bytesMax: 100, limit: 3 })), LETTERS.slice(0, 3), "limit");
    expectEqual(await store.range({ from: key(3), to: key(4), limit: 10, bytesMax: 1 }), [], "nothing");
  }),
  simple("range: reverse: from the upper bound down, the same bounds", async (_, subject) => {
    const store = await filled(subject);
    expectEqual(
      keysOf(await store.range({ from: key(1, 0), to: key(128), limit: 10, reverse: true })),
      LETTERS.slice(1, 5).toReversed(),
      "keys",
    );
  }),
  simple("range: reverse with limit: the last ones", async (_, subject) => {
    const store = await filled(subject);
    expectEqual(keysOf(await store.range({ ...EVERYTHING, limit: 2, reverse: true })), LETTERS.slice(-2).toReversed(), "keys");
  }),
  simple("range: empty or inverted: nothing", async (_, subject) => {
    const store = await filled(subject);
    expectEqual(await store.range({ from: key(2), to: key(2), limit: 10 }), [], "empty");
    expectEqual(await store.range({ from: key(128), to: key(2), limit: 10 }), [], "inverted");
  }),
  simple("range: values: those of their keys", async (_, subject) => {
    const store = await filled(subject);
    const entries = await store.range(EVERYTHING);
    expectEqual(
      entries.map((entry) => entry.value.slice()),
      LETTERS.map((name) => Uint8Array.from([...name, 9])),
      "values",
    );
  }),
];

const DURABILITY_CASES: readonly Case[] = [
  simple("reopen: after a clean close: everything is there", async (_, subject) => {
    await filled(subject);
    expectEqual(keysOf(await (await subject.reopen()).range(EVERYTHING)), LETTERS, "keys");
  }),
  simple("crash: after a synced batch: it is there", async (store, subject) => {
    await store.batch([put(key(1), key(1)), put(key(2), key(2))], SYNC);
    expectEqual(keysOf(await (await subject.crash()).range(EVERYTHING)), [key(1), key(2)], "keys");
  }),
  simple("crash: a synced batch after an unsynced one: both are there", async (store, subject) => {
    await store.batch([put(key(1), key(1))], { sync: false });
    await store.batch([put(key(2), key(2))], SYNC);
    expectEqual(keysOf(await (await subject.crash()).range(EVERYTHING)), [key(1), key(2)], "keys");
  }),
  simple("crash: an unsynced batch: all of it or nothing", async (store, subject) => {
    await store.batch([put(key(1), key(1)), put(key(2), key(2))], { sync: false });
    const seen = (await (await subject.crash()).range(EVERYTHING)).length;
    expectEqual(seen === 0 || seen === 2, true, `${seen} of 2 entries`);
  }),
];

export const KEY_VALUE_CASES: readonly Case[] = [...POINT_CASES, ...BATCH_CASES, ...RANGE_CASES, ...DURABILITY_CASES];

/** Registers one test per promise of the KeyValue port. `open` gives an empty store each time. */
export function keyValueContract(test: TestFunction, open: () => Promise<KeyValueSubject>): void {
  registerContract(test, "KeyValue", KEY_VALUE_CASES, open);
}

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

const text = (value: string): Uint8Array => new TextEncoder().encode(value);
/** The same bytes in the middle of a larger buffer. */
const viewOf = (bytes: Uint8Array): Uint8Array => Uint8Array.from([7, ...bytes, 7]).subarray(1, bytes.length + 1);
const numbered = (n: number): Uint8Array => Uint8Array.of(3, n >> 8, n & 0xff);
const behind = (name: Uint8Array): Uint8Array => Uint8Array.from([...name, 0]);
const valueOf = async (store: KeyValue, name: Uint8Array): Promise<Uint8Array | undefined> => (await store.get(name))?.slice();

async function allKeys(store: KeyValue): Promise<Uint8Array[]> {
  return keysOf(await store.range({ ...EVERYTHING, limit: 100_000 }));
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
  simple("keys: 64 KiB, and another that differs in its last byte: apart", async (store) => {
    const [one, other] = [new Uint8Array(65_536).fill(4), new Uint8Array(65_536).fill(4)];
    other[65_535] = 5;
    await store.batch([put(one, key(1)), put(other, key(2))], SYNC);
    expectEqual([await valueOf(store, one), await valueOf(store, other)], [key(1), key(2)], "get");
    expectEqual(await store.get(one.subarray(0, 65_535)), undefined, "a byte shorter");
  }),
  simple("keys: composed and decomposed Unicode: two keys", async (store) => {
    await store.batch([put(text("\u00e9"), key(1)), put(text("e\u0301"), key(2)), put(text("\u{1f4f7}"), key(3))], SYNC);
    expectEqual(
      await Promise.all(["\u00e9", "e\u0301", "\u{1f4f7}"].map((each) => valueOf(store, text(each)))),
      [key(1), key(2), key(3)],
      "get",
    );
  }),
  simple("keys and values: parts of larger buffers: their own bytes alone", async (store) => {
    await store.batch([put(viewOf(key(1)), viewOf(key(8))), put(viewOf(key(2)), viewOf(key(9)))], SYNC);
    expectEqual([await valueOf(store, key(1)), await valueOf(store, viewOf(key(2)))], [key(8), key(9)], "get");
    expectEqual(keysOf(await store.range({ from: viewOf(key(2)), to: viewOf(key(3)), limit: 9 })), [key(2)], "range");
    await store.batch([remove(viewOf(key(1)))], SYNC);
    expectEqual(await allKeys(store), [key(2)], "keys");
  }),
  simple("getMany: a thousand keys, every third one absent: each in its place", async (store) => {
    const names = Array.from({ length: 1_000 }, (_, at) => numbered((at * 389) % 1_000));
    await store.batch(
      names.filter((_, at) => at % 3 !== 0).map((name) => put(name, name)),
      SYNC,
    );
    const found = await store.getMany(names);
    expectEqual(
      found.map((value) => value?.slice()),
      names.map((name, at) => (at % 3 === 0 ? undefined : name)),
      "getMany",
    );
  }),
  simple("getMany: overwritten and deleted: as get", async (_, subject) => {
    const store = await filled(subject);
    await store.batch([put(key(1), key(0)), remove(key(2))], SYNC);
    const names = [key(1), key(2), key(127)];
    expectEqual(
      (await store.getMany(names)).map((value) => value?.slice()),
      await Promise.all(names.map((name) => valueOf(store, name))),
      "getMany",
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
  simple("batch: ten thousand operations: all of them", async (store) => {
    const names = Array.from({ length: 10_000 }, (_, at) => numbered(at));
    await store.batch(
      names.map((name) => put(name, name)),
      SYNC,
    );
    expectEqual((await allKeys(store)).length, names.length, "keys");
    await store.batch(
      names.filter((_, at) => at % 2 === 0).map((name) => remove(name)),
      SYNC,
    );
    expectEqual((await allKeys(store)).length, names.length / 2, "after the deletes");
  }),
  simple("batch: twelve values of 1 MiB: all of them", async (store) => {
    const names = Array.from({ length: 12 }, (_, at) => key(3, at));
    await store.batch(
      names.map((name, at) => put(name, new Uint8Array(1024 * 1024).fill(at))),
      SYNC,
    );
    for (const [at, name] of names.entries()) {
      const value = await store.get(name);
      expectEqual([value?.length, value?.[0], value?.at(-1)], [1024 * 1024, at, at], `value ${at}`);
    }
  }),
  simple("batch: everything is deleted and one is put: that one", async (_, subject) => {
    const store = await filled(subject);
    await store.batch([...LETTERS.map((name) => remove(name)), put(key(2), key(5))], SYNC);
    expectEqual(await store.range(EVERYTHING), [{ key: key(2), value: key(5) }], "range");
  }),
  simple("batch: put, deleted, put again in batches of their own: the last value", async (store) => {
    for (const operation of [put(key(1), key(1)), remove(key(1)), put(key(1), key(2))]) await store.batch([operation], SYNC);
    expectEqual(await store.range(EVERYTHING), [{ key: key(1), value: key(2) }], "range");
  }),
  simple("batch: without sync: read at once", async (store) => {
    await store.batch([put(key(1), key(1)), put(key(2), key(2))], { sync: false });
    await store.batch([remove(key(1))], { sync: false });
    expectEqual([await store.get(key(1)), await valueOf(store, key(2))], [undefined, key(2)], "get");
    expectEqual(await allKeys(store), [key(2)], "keys");
  }),
  simple("batch: a hundred at the same time, synced and not: none overwrites another's keys", async (store) => {
    const names = Array.from({ length: 100 }, (_, at) => numbered(at));
    await Promise.all(names.map((name, at) => store.batch([put(name, name)], { sync: at % 3 === 0 })));
    expectEqual(await allKeys(store), names, "keys");
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
  simple("range: no entries wanted: none", async (_, subject) => {
    const store = await filled(subject);
    expectEqual(await store.range({ ...EVERYTHING, limit: 0 }), [], "range");
    expectEqual(await store.range({ ...EVERYTHING, limit: 0, reverse: true }), [], "reverse");
  }),
  simple("range: page by page, each behind the last key: every entry once", async (_, subject) => {
    const store = await filled(subject);
    const found: Uint8Array[] = [];
    for (let from = EVERYTHING.from; ;) {
      const page = keysOf(await store.range({ ...EVERYTHING, from, limit: 2 }));
      found.push(...page);
      if (page.length < 2) break;
      from = behind(page[1]!);
    }
    expectEqual(found, LETTERS, "keys");
  }),
  simple("range: page by page in reverse, each below the last key: every entry once", async (_, subject) => {
    const store = await filled(subject);
    const found: Uint8Array[] = [];
    for (let to = EVERYTHING.to; ;) {
      const page = keysOf(await store.range({ ...EVERYTHING, to, limit: 2, reverse: true }));
      found.push(...page);
      if (page.length < 2) break;
      to = page[1]!;
    }
    expectEqual(found, LETTERS.toReversed(), "keys");
  }),
  simple("range: of a prefix: the key itself and what extends it, no other", async (_, subject) => {
    const store = await filled(subject);
    expectEqual(keysOf(await store.range({ from: key(1), to: key(2), limit: 10 })), [key(1), key(1, 0), key(1, 255)], "keys");
  }),
  simple("range: overwritten and deleted many times: each key once, with its newest value", async (store) => {
    for (let round = 0; round < 30; round += 1) {
      const changes = Array.from({ length: 20 }, (_, at) =>
        (at + round) % 3 === 0 ? remove(numbered(at)) : put(numbered(at), key(round)),
      );
      await store.batch(changes, { sync: round % 10 === 0 });
    }
    const expected = Array.from({ length: 20 }, (_, at) => at).filter((at) => (at + 29) % 3 !== 0);
    expectEqual(
      await store.range(EVERYTHING),
      expected.map((at) => ({ key: numbered(at), value: key(29) })),
      "range",
    );
  }),
  simple("range: while batches change what it reads: sorted, each key at most once, each batch whole", async (store) => {
    const pair = (round: number): KeyValueOperation[] => [put(key(1), key(round)), put(key(2), key(round))];
    await store.batch(pair(0), SYNC);
    const written = Promise.all(Array.from({ length: 40 }, (_, at) => store.batch(pair(at + 1), { sync: at % 8 === 0 })));
    for (let reads = 0; reads < 20; reads += 1) {
      const entries = await store.range(EVERYTHING);
      expectEqual(keysOf(entries), [key(1), key(2)], "keys");
      expectEqual(entries[0]?.value.slice(), entries[1]?.value.slice(), "values of one batch");
    }
    await written;
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
  simple("reopen: after deletes and overwrites: as before the close", async (_, subject) => {
    const store = await filled(subject);
    await store.batch([remove(key(2)), put(key(1), key(5)), remove(key(255))], SYNC);
    const before = await store.range(EVERYTHING);
    const expected = before.map((entry) => ({ key: entry.key.slice(), value: entry.value.slice() }));
    expectEqual(await (await subject.reopen()).range(EVERYTHING), expected, "range");
  }),
  simple("crash: a synced delete, a synced overwrite: neither is undone", async (_, subject) => {
    const store = await filled(subject);
    await store.batch([remove(key(2)), put(key(1), key(5))], SYNC);
    const after = await subject.crash();
    expectEqual([await after.get(key(2)), await valueOf(after, key(1))], [undefined, key(5)], "get");
  }),
  simple("crash: an unsynced delete: undone whole, or done whole", async (_, subject) => {
    const store = await filled(subject);
    await store.batch([remove(key(1)), remove(key(255))], { sync: false });
    const after = await subject.crash();
    expectEqual((await after.get(key(1))) === undefined, (await after.get(key(255))) === undefined, "both or none");
    expectEqual(await valueOf(after, key(2)), key(2, 9), "another key");
  }),
  simple("crash: synced batches at the same time: each that resolved is there", async (store, subject) => {
    const names = Array.from({ length: 50 }, (_, at) => numbered(at));
    await Promise.all(names.map((name) => store.batch([put(name, name)], SYNC)));
    expectEqual(await allKeys(await subject.crash()), names, "keys");
  }),
  simple("crash: a synced value of 1 MiB behind many small ones: every byte", async (store, subject) => {
    for (let at = 0; at < 50; at += 1) await store.batch([put(numbered(at), numbered(at))], { sync: false });
    await store.batch([put(key(9), new Uint8Array(1024 * 1024).fill(6))], SYNC);
    const after = await subject.crash();
    const value = await after.get(key(9));
    expectEqual([value?.length, value?.every((byte) => byte === 6)], [1024 * 1024, true], "value");
    expectEqual((await allKeys(after)).length, 51, "keys");
  }),
  simple("crash: the store that is opened then takes batches, over what was there", async (store, subject) => {
    await store.batch([put(key(1), key(1))], SYNC);
    const after = await subject.crash();
    await after.batch([put(key(2), key(2)), remove(key(1))], SYNC);
    expectEqual(await after.range(EVERYTHING), [{ key: key(2), value: key(2) }], "range");
  }),
];

export const KEY_VALUE_CASES: readonly Case[] = [...POINT_CASES, ...BATCH_CASES, ...RANGE_CASES, ...DURABILITY_CASES];

/** Registers one test per promise of the KeyValue port. `open` gives an empty store each time. */
export function keyValueContract(test: TestFunction, open: () => Promise<KeyValueSubject>): void {
  registerContract(test, "KeyValue", KEY_VALUE_CASES, open);
}

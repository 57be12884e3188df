// Ids: partitioner, packing, sets, filters, order.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { IdFilter } from "./id-filter.ts";
import { IdTable } from "./id-table.ts";
import { compareIds, idKeys, packContent, packGiven, packIds, unpackIds } from "./id-words.ts";
import { murmur2, partitionOfBytes, partitionOfId } from "./murmur2.ts";
import { sortIds } from "./sort-ids.ts";
import { hash, utf8 } from "./test/fixture.ts";

const KEYS = idKeys(Uint8Array.from({ length: 16 }, (_, at) => at));
const UUID = "0A1b2c3d-4e5f-4677-8899-aabbccddeeff";

function packed(id: string, keys = KEYS): Uint8Array {
  const words = new Uint32Array(4);
  packGiven(utf8(id), keys, hash, words, 0);
  return unpackIds(words);
}

test("[DDD3] murmur2: the vectors of Kafka's own test", () => {
  const vectors = {
    "21": -973932308,
    foobar: -790332482,
    "a-little-bit-long-string": -985981536,
    "a-little-bit-longer-string": -1486304829,
    lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8: -58897971,
    abc: 479470107,
  };
  for (const [text, expected] of Object.entries(vectors)) assert.equal(murmur2(utf8(text)), expected, text);
});

test("[DD3] partition: of an id: one of them, positive, the same for both cases of a UUID", () => {
  for (let number = 0; number < 500; number += 1) {
    const partition = partitionOfId(utf8(`id ${number}`), 7);
    assert.ok(partition >= 0 && partition < 7);
  }
  assert.equal(partitionOfId(utf8(UUID.toUpperCase()), 1000), partitionOfId(utf8(UUID.toLowerCase()), 1000));
  assert.notEqual(partitionOfId(utf8("ABC"), 1000), partitionOfId(utf8("abc"), 1000), "other ids are as they are");
  assert.equal(partitionOfBytes(utf8("foobar"), 16), (-790332482 & 0x7fffffff) % 16);
});

test("[DDD6] pack: a UUID: its own bytes, in any case", () => {
  const bytes = Uint8Array.from(Buffer.from(UUID.replaceAll("-", ""), "hex"));
  for (const text of [UUID, UUID.toLowerCase(), UUID.toUpperCase()]) assert.deepEqual(packed(text), bytes);
});

test("[DDD6] pack: anything else: a hash that depends on the key", () => {
  const other = idKeys(new Uint8Array(16));
  for (const id of [
    "ksuid-like-0ujtsYcgvSTl8PAuAdqWYSMnLOv",
    UUID.replaceAll("-", ""),
    UUID.replace("A", "g"),
    `${UUID.slice(0, 35)}-`,
    "a",
  ]) {
    assert.notDeepEqual(packed(id), packed(id, other), id);
    assert.deepEqual(packed(id), packed(id));
  }
});

test("[DDD6] pack: a content is no given id of the same bytes", () => {
  const words = new Uint32Array(4);
  packContent(utf8("same"), KEYS, hash, words, 0);
  assert.notDeepEqual(unpackIds(words), packed("same"));
});

const ids = fc.array(fc.uint8Array({ minLength: 16, maxLength: 16 }), { maxLength: 300 });
const concat = (parts: readonly Uint8Array[]): Uint32Array => packIds(Uint8Array.from(Buffer.concat(parts)));

test("words: packed and unpacked: the same bytes, the same order", () => {
  fc.assert(
    fc.property(ids, (bytes) => {
      const words = concat(bytes);
      assert.deepEqual(unpackIds(words), Uint8Array.from(Buffer.concat(bytes)));
      if (bytes.length > 1) assert.equal(Math.sign(compareIds(words, 0, words, 4)), Buffer.compare(bytes[0]!, bytes[1]!));
    }),
  );
});

test("set: like a Set of texts, whatever the ids", () => {
  fc.assert(
    fc.property(ids, fc.integer(), (bytes, seed) => {
      const table = new IdTable(seed);
      const model = new Set<string>();
      for (const each of [...bytes, ...bytes]) {
        const words = concat([each]);
        const text = Buffer.from(each).toString("hex");
        assert.equal(table.has(words, 0), model.has(text));
        assert.equal(table.add(words, 0), !model.has(text));
        model.add(text);
      }
      assert.deepEqual(Buffer.from(unpackIds(table.words)).toString("hex"), [...model].join(""));
    }),
  );
});

test("sort: as bytes compare", async () => {
  await fc.assert(
    fc.asyncProperty(ids, async (bytes) => {
      const sorted = await sortIds(concat(bytes), () => Promise.resolve());
      assert.deepEqual(unpackIds(sorted), Uint8Array.from(Buffer.concat(bytes.toSorted((a, b) => Buffer.compare(a, b)))));
    }),
  );
});

test("sort: many: by counting, as few are by comparing", async () => {
  for (const isTimeOrdered of [false, true]) {
    const many = words(20_000, 0, isTimeOrdered);
    const bytes = Array.from({ length: 20_000 }, (_, at) => unpackIds(many, at * 4, 1));
    const expected = Uint8Array.from(Buffer.concat(bytes.toSorted((a, b) => Buffer.compare(a, b))));
    assert.deepEqual(unpackIds(await sortIds(many, () => Promise.resolve())), expected);
  }
});

function words(count: number, start: number, isTimeOrdered: boolean): Uint32Array {
  const all = new Uint32Array(count * 4);
  for (let at = 0; at < count; at += 1) {
    const number = start + at;
    const random = [1, 2, 3, 4].map((word) => Math.imul(number * 4 + word, 0x9e3779b1) ^ Math.imul(number + word, 0x85ebca6b));
    all.set(isTimeOrdered ? [0x018c0000, number, 0x7000, 0x80000000] : random, at * 4);
  }
  return all;
}

for (const isTimeOrdered of [false, true]) {
  test(`[DD5] filter: ${isTimeOrdered ? "time-ordered" : "random"} ids: none missed, below 1 % of absent ones taken for present`, () => {
    const count = 20_000;
    const filter = new IdFilter(count, 12345);
    const present = words(count, 0, isTimeOrdered);
    for (let at = 0; at < present.length; at += 4) filter.add(present, at);
    for (let at = 0; at < present.length; at += 4) assert.ok(filter.mayHave(present, at));
    const absent = words(count, 1_000_000, isTimeOrdered);
    let taken = 0;
    for (let at = 0; at < absent.length; at += 4) taken += filter.mayHave(absent, at) ? 1 : 0;
    assert.ok(taken < count / 100, `${taken} of ${count}`);
    assert.equal(filter.memoryBytes, count * 2);
  });
}

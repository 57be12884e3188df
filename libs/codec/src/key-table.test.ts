import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { keyText } from "./key-text.ts";
import { compareBytes } from "./compare-bytes.ts";
import { keyHash, keyHashWithin, KeyTable, type Keyed } from "./key-table.ts";
import { PlacedPut } from "./placed-put.ts";

interface Entry extends Keyed {
  readonly value: number;
}

const key = fc.uint8Array({ maxLength: 3 });

/** Each put and each answer beside a map of texts, with hashes as `hashOf` says. */
function compare(
  puts: readonly (readonly [Uint8Array, number])[],
  asked: readonly Uint8Array[],
  hashOf: (key: Uint8Array) => number,
): void {
  const [table, reference] = [new KeyTable<Entry>(), new Map<string, number>()];
  for (const [each, value] of puts) {
    assert.equal(table.put({ key: each, hash: hashOf(each), value })?.value, reference.get(keyText(each)));
    reference.set(keyText(each), value);
  }
  assert.equal(table.size, reference.size);
  const entries = table.entries.map((entry): [string, number] => [keyText(entry.key), entry.value]);
  assert.deepEqual(entries, [...reference], "in the order of first puts");
  for (const each of [...asked, ...puts.map(([put]) => put)]) {
    assert.equal(table.get(each, hashOf(each))?.value, reference.get(keyText(each)));
  }
}

test("property: key table: puts and lookups: the answers of a map by texts", () => {
  const puts = fc.array(fc.tuple(key, fc.nat()), { maxLength: 600, size: "max" });
  fc.assert(fc.property(puts, fc.array(key, { maxLength: 50 }), (all, asked) => compare(all, asked, keyHash)));
});

test("property: key table: all keys of one hash, or of four: the same answers", () => {
  const puts = fc.array(fc.tuple(key, fc.nat()), { maxLength: 300, size: "max" });
  fc.assert(
    fc.property(puts, fc.array(key, { maxLength: 50 }), fc.constantFrom(1, 4), (all, asked, hashes) =>
      compare(all, asked, (each) => -(each.length % hashes)),
    ),
  );
});

test("key hash: one byte, or the length, differs: another hash of 32 bits; the same bytes in another buffer: the same", () => {
  const keys = Array.from({ length: 4_096 }, (_, n) => Uint8Array.of(0x72, n & 255, n >>> 8, 0, 0, n & 7));
  const hashes = new Set([...keys, ...keys.map((each) => each.subarray(0, 5))].map(keyHash));
  assert.ok(hashes.size > 4_096 + 16 * 256 - 8, `${hashes.size} hashes`);
  for (const hash of hashes) assert.equal(hash, hash | 0);
  const whole = Uint8Array.of(9, 1, 2, 3, 9);
  assert.equal(keyHash(whole.subarray(1, 4)), keyHash(Uint8Array.of(1, 2, 3)));
  assert.equal(keyHashWithin(whole, 1, 4), keyHash(Uint8Array.of(1, 2, 3)));
});

test("placed put: key, value and bytes are those of its place in the buffer", () => {
  const put = new PlacedPut(Uint8Array.of(9, 1, 2, 3, 4, 9), { from: 1, valueFrom: 3, to: 5 });
  assert.deepEqual([put.kind, put.key, put.value, put.bytes], ["put", Uint8Array.of(1, 2), Uint8Array.of(3, 4), 4]);
  assert.equal(put.hash, keyHash(Uint8Array.of(1, 2)));
  for (const other of [[], [1], [1, 1], [1, 2], [1, 2, 0], [1, 3], [2]].map((each) => Uint8Array.from(each))) {
    assert.equal(put.compareKey(other), compareBytes(Uint8Array.of(1, 2), other));
  }
});

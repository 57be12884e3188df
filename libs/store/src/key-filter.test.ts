import assert from "node:assert/strict";
import { test } from "node:test";
import { crc32 } from "node:zlib";
import { KeyFilter } from "./key-filter.ts";
import { FILTER_BYTES_MAX, FILTER_KEYS_MIN } from "./limits.ts";

const checksumOf = (n: number): number => crc32(`row of album ${n}`);

test("added keys: beyond what it was made for, by layers: each may be there (I9); others seldom look so", () => {
  const filter = new KeyFilter(1_000);
  const keys = 20 * FILTER_KEYS_MIN;
  for (let n = 0; n < keys; n += 1) {
    filter.add(checksumOf(n));
    assert.ok(filter.mayHave(checksumOf(n)));
  }
  let wrong = 0;
  for (let n = 0; n < keys; n += 1) {
    assert.ok(filter.mayHave(checksumOf(n)));
    if (filter.mayHave(checksumOf(-1 - n))) wrong += 1;
  }
  assert.ok(wrong < 0.03 * keys, `${wrong} of ${keys}`);
});

test("made for its keys: one in a hundred others looks as if it were there, at most", () => {
  const keys = 100_000;
  const filter = new KeyFilter(keys);
  for (let n = 0; n < 2 * keys; n += 1) filter.add(checksumOf(n));
  let wrong = 0;
  for (let n = 0; n < keys; n += 1) if (filter.mayHave(checksumOf(-1 - n))) wrong += 1;
  assert.ok(wrong < 0.01 * keys, `${wrong} of ${keys}`);
  assert.ok(filter.bytes < 2 * 2 * keys, `${filter.bytes} bytes`);
});

test("a key again: takes no more memory", () => {
  const filter = new KeyFilter();
  const { bytes } = filter;
  for (let n = 0; n < 4 * FILTER_KEYS_MIN; n += 1) filter.add(checksumOf(n % 100));
  assert.equal(filter.bytes, bytes);
});

test("more keys than FILTER_BYTES_MAX holds: dropped: every key may be there, and it takes no memory", () => {
  const filter = new KeyFilter(FILTER_BYTES_MAX);
  assert.deepEqual([filter.bytes, filter.mayHave(1)], [0, true]);
  filter.add(1);
  assert.deepEqual([filter.bytes, filter.mayHave(2)], [0, true]);
});

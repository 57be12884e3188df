// Sums of images around their modulus, where an addition that passes 2^53 rounds.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ABSENT, RangeSums } from "./range-sums.ts";

const MODULUS = 2 ** 52;
const IMAGE_MAX = 2 ** 32;
const KEY = Uint8Array.of(97);

test("sums: near the modulus: exact, whatever the order of changes", () => {
  const images = [IMAGE_MAX, IMAGE_MAX - 1, 3, 1, 2, 7_654_321];
  const orders = [images, images.toReversed(), images.toSorted((left, right) => left - right)];
  for (const start of [0, 1, MODULUS - 1, MODULUS - 2, MODULUS - IMAGE_MAX, MODULUS - IMAGE_MAX - 1, MODULUS / 2 + 1]) {
    const expected = Number(images.reduce((sum, image) => sum + BigInt(image), BigInt(start)) % BigInt(MODULUS));
    for (const order of orders) {
      const sums = new RangeSums([{ range: 97, count: 10, sum: start }]);
      for (const image of order) sums.change(KEY, ABSENT, image);
      assert.deepEqual(sums.list(), [{ range: 97, count: 10 + images.length, sum: expected }]);
      for (const image of order.toReversed()) sums.change(KEY, image, ABSENT);
      assert.deepEqual(sums.list(), [{ range: 97, count: 10, sum: start }]);
    }
  }
});

test("sums: a value is replaced at the modulus: the sum of a scan", () => {
  const sums = new RangeSums([{ range: 97, count: 2, sum: MODULUS - 1 }]);
  sums.change(KEY, 4, 5);
  assert.deepEqual(sums.list(), [{ range: 97, count: 2, sum: 0 }]);
  sums.change(KEY, 5, 4);
  assert.deepEqual(sums.list(), [{ range: 97, count: 2, sum: MODULUS - 1 }]);
});

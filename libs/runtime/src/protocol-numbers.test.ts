import assert from "node:assert/strict";
import { test } from "node:test";
import {
  EPOCH_NONE,
  epochOf,
  isTimestampUs,
  nextEpoch,
  nextSeq,
  plusUs,
  SEQ_NONE,
  seqOf,
  timestampUsOf,
  type Seq,
  type TimestampUs,
} from "./index.ts";

const I64_MAX = (1n << 63n) - 1n;
const U64_MAX = (1n << 64n) - 1n;

for (const [name, of, none] of [
  ["epoch", epochOf, EPOCH_NONE],
  ["seq", seqOf, SEQ_NONE],
] as const) {
  test(`protocol numbers: ${name}: 0 to 64 bits, nothing else`, () => {
    assert.equal(none, 0n);
    assert.equal(of(U64_MAX), U64_MAX);
    assert.throws(() => of(U64_MAX + 1n), { code: "INTERNAL" });
    assert.throws(() => of(-1n), { code: "INTERNAL" });
  });
}

test("protocol numbers: next: one more, refused where it would not fit", () => {
  assert.equal(nextEpoch(EPOCH_NONE), 1n);
  assert.equal(nextSeq(seqOf(U64_MAX - 1n)), U64_MAX);
  assert.throws(() => nextEpoch(epochOf(U64_MAX)), { code: "INTERNAL" });
  assert.throws(() => nextSeq(seqOf(U64_MAX)), { code: "INTERNAL" });
});

test("timestamps: 0 to 63 bits, nothing else; sums too", () => {
  for (const good of [0n, 1n, I64_MAX]) assert.deepEqual([isTimestampUs(good), timestampUsOf(good)], [true, good]);
  for (const bad of [-1n, I64_MAX + 1n]) {
    assert.equal(isTimestampUs(bad), false);
    assert.throws(() => timestampUsOf(bad), { code: "INTERNAL" });
  }
  assert.equal(plusUs(timestampUsOf(5n), -5n), 0n);
  assert.throws(() => plusUs(timestampUsOf(5n), -6n), { code: "INTERNAL" });
  assert.throws(() => plusUs(timestampUsOf(I64_MAX), 1n), { code: "INTERNAL" });
});

test("protocol numbers: types: an epoch is no seq, a plain bigint is neither", () => {
  const takesSeq = (seq: Seq): Seq => seq;
  // @ts-expect-error an epoch where a seq belongs does not compile
  assert.equal(takesSeq(epochOf(3n)), 3n);
  // @ts-expect-error nor does a number that no function of ours has checked
  assert.equal(takesSeq(3n), 3n);
  const takesTimestamp = (timestampUs: TimestampUs): TimestampUs => timestampUs;
  // @ts-expect-error nor a seq where a timestamp belongs
  assert.equal(takesTimestamp(seqOf(3n)), 3n);
});

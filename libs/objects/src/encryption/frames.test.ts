import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { oidOf } from "@concord/ports";
import { toHex } from "@concord/runtime";
import { collect, manyBytes } from "../test/fixture.ts";
import { testCipher } from "../test/cipher.ts";
import {
  frameKeyOf,
  FrameSealer,
  frameSpanOf,
  framesOf,
  FRAME_BYTES,
  openBytes,
  openFrames,
  sealedLength,
  type BlobIdentity,
} from "./frames.ts";

const dataKey = Uint8Array.from({ length: 32 }, (_, at) => at);
const identity: BlobIdentity = { object: 258n, part: 0, guid: 258n, oid: oidOf(42, 15) };
const keyOf = (about: Partial<BlobIdentity> = {}, key = dataKey) => frameKeyOf(testCipher, key, { ...identity, ...about });

function sealed(plain: Uint8Array, about: Partial<BlobIdentity> = {}): Uint8Array {
  return new FrameSealer(keyOf(about)).seal(plain, true);
}

function opened(bytes: Uint8Array, lengthBytes: number, about: Partial<BlobIdentity> = {}): Uint8Array {
  return openBytes(keyOf(about), frameSpanOf(lengthBytes, 0, lengthBytes), bytes);
}

const CORRUPT = { code: "CORRUPT_DATA" };

test("frames: golden bytes of version 1: empty, short, a part, in a row", () => {
  const golden: readonly (readonly [Uint8Array, Partial<BlobIdentity>, string])[] = [
    [new Uint8Array(), {}, "ae3c7c1696a03a4c1cba087e6a9b4a7f"],
    [Uint8Array.of(1, 2, 3), {}, "7a6eae07e1b96f0bcd38dcdbc384b32f0d9ff1"],
    [Uint8Array.of(1, 2, 3), { part: 7, guid: 300n }, "95c98219ad9d0e386c6560ed8f0ad4bc3f294a"],
    [Uint8Array.of(1, 2, 3), { oid: undefined }, "c8da491420c34245ff43d3c678f15350beae1f"],
  ];
  for (const [plain, about, hex] of golden) {
    assert.equal(toHex(sealed(plain, about)), hex);
    assert.deepEqual(Uint8Array.from(opened(sealed(plain, about), plain.length, about)), plain);
  }
});

test("frames: golden bytes of version 1: the tags of three frames", () => {
  const bytes = sealed(manyBytes(2 * FRAME_BYTES + 3));
  const tags = [FRAME_BYTES, 2 * FRAME_BYTES + 16, 2 * FRAME_BYTES + 35].map((at) => toHex(bytes.subarray(at, at + 16)));
  assert.deepEqual(tags, ["bc2409c28629ba428ab5447616bc53dd", "24de098c6f48affe792c27387919d94b", "5d449f2295889c575e124b5cb8f6b7f5"]);
});

test("frames: any length, any write and read sizes, any range: the bytes that were sealed", async () => {
  const cases = fc.record({
    length: fc.oneof(
      fc.integer({ min: 0, max: 200 }),
      fc.integer({ min: -20, max: 20 }).map((near) => Math.max(0, 3 * FRAME_BYTES + near)),
    ),
    writeFrames: fc.integer({ min: 1, max: 3 }),
    readBytes: fc.integer({ min: 1, max: 3 * FRAME_BYTES }),
    from: fc.double({ min: 0, max: 1, noNaN: true }),
    count: fc.double({ min: 0, max: 1, noNaN: true }),
  });
  await fc.assert(
    fc.asyncProperty(cases, async ({ length, writeFrames, readBytes, from, count }) => {
      const plain = manyBytes(length);
      const sealer = new FrameSealer(keyOf());
      const written: Uint8Array[] = [];
      const writeBytes = writeFrames * FRAME_BYTES;
      for (let at = 0; at === 0 || at < length; at += writeBytes)
        written.push(sealer.seal(plain.subarray(at, at + writeBytes), at + writeBytes >= length));
      const blob = Buffer.concat(written);
      assert.equal(blob.length, sealedLength(length));
      const offset = Math.floor(from * length);
      const lengthBytes = Math.floor(count * (length - offset));
      const span = frameSpanOf(length, offset, lengthBytes);
      async function* read(): AsyncGenerator<Uint8Array, void, undefined> {
        for (let at = span.offset; at < span.offset + span.lengthBytes; at += readBytes)
          yield blob.subarray(at, Math.min(at + readBytes, span.offset + span.lengthBytes));
      }
      assert.deepEqual(await collect(openFrames(keyOf(), span, read())), plain.slice(offset, offset + lengthBytes));
    }),
    { numRuns: 50 },
  );
});

test("[OGD24] frames: each flipped byte: refused", () => {
  const plain = manyBytes(100);
  const bytes = sealed(plain);
  for (let at = 0; at < bytes.length; at += 1) {
    const flipped = Uint8Array.from(bytes);
    flipped[at]! ^= 1 << (at % 8);
    assert.throws(() => opened(flipped, plain.length), CORRUPT, `byte ${at}`);
  }
});

test("[OGD24] frames: swapped, repeated, missing, cut at a frame's end, one more: refused", () => {
  const plain = manyBytes(3 * FRAME_BYTES);
  const bytes = sealed(plain);
  const whole = FRAME_BYTES + 16;
  const frame = (at: number) => bytes.subarray(at * whole, (at + 1) * whole);
  assert.deepEqual(Uint8Array.from(opened(bytes, plain.length)), plain);
  for (const order of [
    [1, 0, 2],
    [0, 2, 1],
    [0, 0, 2],
    [0, 1, 1],
  ]) {
    assert.throws(() => opened(Buffer.concat(order.map(frame)), plain.length), CORRUPT, order.join());
  }
  // Also when the length that the row says was changed with it.
  for (const frames of [1, 2])
    assert.throws(() => opened(bytes.subarray(0, frames * whole), frames * FRAME_BYTES), CORRUPT, `${frames} frames`);
  assert.throws(() => opened(bytes.subarray(0, 2 * whole), plain.length), CORRUPT);
  assert.throws(() => opened(Buffer.concat([bytes, frame(2)]), plain.length), CORRUPT);
});

test("[OGD24] frames: of another object, part, put or blob, or under another key: refused", () => {
  const plain = manyBytes(10);
  const bytes = sealed(plain);
  for (const about of [{ object: 259n }, { part: 1 }, { guid: 259n }, { oid: oidOf(42, 16) }, { oid: oidOf(43, 15) }, { oid: undefined }])
    assert.throws(() => opened(bytes, plain.length, about), CORRUPT);
  const other = keyOf({}, new Uint8Array(32));
  assert.throws(() => openBytes(other, frameSpanOf(10, 0, 10), bytes), CORRUPT);
});

test("frames: a range: only the frames that hold it are read", () => {
  const total = 10 * FRAME_BYTES + 5;
  assert.equal(framesOf(total), 11);
  const { first, frames, offset, lengthBytes } = frameSpanOf(total, 2 * FRAME_BYTES + 1, FRAME_BYTES);
  assert.deepEqual([first, frames, offset, lengthBytes], [2, 2, 2 * (FRAME_BYTES + 16), 2 * (FRAME_BYTES + 16)]);
  assert.deepEqual(frameSpanOf(total, total - 1, 1).lengthBytes, 5 + 16);
});

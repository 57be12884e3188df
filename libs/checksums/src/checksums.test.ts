import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { combineCrc32, combineCrc32c, combineCrc64nvme, crc32, crc32c, crc64nvme, crcStream, type CrcAlgorithm } from "./index.ts";

const ascii = (text: string): Uint8Array => new TextEncoder().encode(text);

test("crc32: published vectors: the same numbers", () => {
  assert.equal(crc32(ascii("123456789")), 0xcbf43926);
  assert.equal(crc32(ascii("The quick brown fox jumps over the lazy dog")), 0x414fa339);
  assert.equal(crc32(new Uint8Array(0)), 0);
});

/** Bit by bit, from the definition. */
function definedCrc32(bytes: Uint8Array, previous: number): number {
  let crc = ~previous >>> 0;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit += 1) crc = (crc & 1) === 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  }
  return ~crc >>> 0;
}

test("crc32: around the 256 bytes from which another implementation takes over, every alignment of shared memory, going on: as defined", () => {
  const memory = new Uint8Array(new SharedArrayBuffer(5_000)).map((_, at) => (at * 151 + 7) & 0xff);
  for (let from = 0; from < 8; from += 1)
    for (const length of [0, 1, 7, 254, 255, 256, 257, 258, 1_000, 4_097])
      for (const previous of [0, 1, 0x7fffffff, 0xffffffff]) {
        const bytes = memory.subarray(from, from + length);
        assert.equal(crc32(bytes, previous), definedCrc32(bytes, previous), `${length} bytes from ${from} after ${previous}`);
      }
});

test("crc32c: published vectors of RFC 3720: the same numbers", () => {
  assert.equal(crc32c(ascii("123456789")), 0xe3069283);
  assert.equal(crc32c(new Uint8Array(32)), 0x8a9136aa);
  assert.equal(crc32c(new Uint8Array(32).fill(0xff)), 0x62a8ab43);
  assert.equal(crc32c(Uint8Array.from({ length: 32 }, (_, i) => i)), 0x46dd794e);
  assert.equal(crc32c(Uint8Array.from({ length: 32 }, (_, i) => 31 - i)), 0x113fdb5c);
});

test("crc64nvme: published vectors of the NVM command set: the same numbers", () => {
  assert.equal(crc64nvme(ascii("123456789")), 0xae8b14860a799888n);
  assert.equal(crc64nvme(new Uint8Array(4096)), 0x6482d367eb22b64en);
  assert.equal(crc64nvme(new Uint8Array(4096).fill(0xff)), 0xc0ddba7302eca3acn);
  assert.equal(crc64nvme(new Uint8Array(0)), 0n);
});

/** Bit by bit, from the definition. */
function definedCrc64(bytes: Uint8Array): bigint {
  let crc = 0xffffffffffffffffn;
  for (const byte of bytes) {
    crc ^= BigInt(byte);
    for (let bit = 0; bit < 8; bit += 1) crc = (crc & 1n) === 1n ? (crc >> 1n) ^ 0x9a6c9329ac4bc9b5n : crc >> 1n;
  }
  return crc ^ 0xffffffffffffffffn;
}

test("crc64nvme: every length up to 100 bytes, every alignment of shared memory: as defined", () => {
  const memory = new Uint8Array(new SharedArrayBuffer(120)).map((_, at) => (at * 151 + 7) & 0xff);
  for (let from = 0; from < 8; from += 1)
    for (let length = 0; length <= 100; length += 1) {
      const bytes = memory.subarray(from, from + length);
      assert.equal(crc64nvme(bytes), definedCrc64(bytes), `${length} bytes from ${from}`);
    }
});

test("crc64nvme: long ones, and one byte less and more: as defined", () => {
  const whole = Uint8Array.from({ length: 2 * 65_536 + 1 }, (_, at) => (at * 31) ^ (at >> 7));
  for (const length of [65_535, 65_536, 65_537, 131_072, 131_073])
    assert.equal(crc64nvme(whole.subarray(0, length)), definedCrc64(whole.subarray(0, length)), String(length));
});

const ONE_SHOT = {
  CRC32: (bytes: Uint8Array) => BigInt(crc32(bytes)),
  CRC32C: (bytes: Uint8Array) => BigInt(crc32c(bytes)),
  CRC64NVME: (bytes: Uint8Array) => crc64nvme(bytes),
};
const COMBINE = {
  CRC32: (a: bigint, b: bigint, length: number) => BigInt(combineCrc32(Number(a), Number(b), length)),
  CRC32C: (a: bigint, b: bigint, length: number) => BigInt(combineCrc32c(Number(a), Number(b), length)),
  CRC64NVME: combineCrc64nvme,
};
const bytes = fc.uint8Array({ maxLength: 40_000, size: "max" });

for (const algorithm of ["CRC32", "CRC32C", "CRC64NVME"] as CrcAlgorithm[]) {
  test(`${algorithm}: bytes in pieces: as in one, also when streams take turns`, () => {
    fc.assert(
      fc.property(fc.array(bytes, { maxLength: 5 }), (blobs) => {
        const stream = crcStream(algorithm);
        const other = crcStream(algorithm);
        for (const blob of blobs) {
          stream.update(blob);
          other.update(Uint8Array.of(1, 2, 3));
        }
        const expected = ONE_SHOT[algorithm](Buffer.concat(blobs)).toString(16);
        assert.equal(BigInt(`0x${Buffer.from(stream.digest()).toString("hex")}`).toString(16), expected);
      }),
      { numRuns: 50 },
    );
  });

  test(`${algorithm}: combined from two parts: that of the whole`, () => {
    fc.assert(
      fc.property(bytes, bytes, (a, b) => {
        const whole = ONE_SHOT[algorithm](Buffer.concat([a, b]));
        assert.equal(COMBINE[algorithm](ONE_SHOT[algorithm](a), ONE_SHOT[algorithm](b), b.length), whole);
      }),
      { numRuns: 50 },
    );
  });

  test(`${algorithm}: combined over a length beyond 32 bits: as by way of its halves`, () => {
    const [a, b] = [ONE_SHOT[algorithm](ascii("a")), ONE_SHOT[algorithm](ascii("b"))];
    const combine = COMBINE[algorithm];
    const half = 2 ** 40 + 3;
    // Appending zeros twice: (a, half zeros, half zeros) with a CRC of 0 for the zeros of each half.
    assert.equal(combine(combine(a, 0n, half), b, half), combine(a, combine(0n, b, half), 2 * half));
  });
}

test("crcStream: digests: big-endian bytes", () => {
  const stream = crcStream("CRC32C");
  stream.update(ascii("123456789"));
  assert.deepEqual([...stream.digest()], [0xe3, 0x06, 0x92, 0x83]);
});

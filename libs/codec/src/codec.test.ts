import assert from "node:assert/strict";
import { test } from "node:test";
import { crc32 } from "node:zlib";
import fc from "fast-check";
import { ConcordError } from "@concord/runtime";
import {
  ByteReader,
  ByteWriter,
  compareBytes,
  keyText,
  openRecord,
  readOrderedBytes,
  readOrderedF64,
  readOrderedI32,
  readOrderedI64,
  readOrderedText,
  sealRecord,
  writeOrderedBytes,
  writeOrderedF64,
  writeOrderedI32,
  writeOrderedI64,
  writeOrderedText,
} from "./index.ts";

const checksum = (bytes: Uint8Array): number => crc32(bytes);
const i64 = fc.bigInt({ min: -(1n << 63n), max: (1n << 63n) - 1n });
const bytesOf = (write: (writer: ByteWriter) => unknown): Uint8Array => {
  const writer = new ByteWriter();
  write(writer);
  return writer.finish();
};

/** Order and round trip of one ordered encoding (I1). */
function ordered<Value>(
  name: string,
  values: fc.Arbitrary<Value>,
  write: (writer: ByteWriter, value: Value) => void,
  read: (reader: ByteReader) => Value,
): void {
  const compare = (left: Value, right: Value): number => {
    if (left instanceof Uint8Array && right instanceof Uint8Array) return Buffer.compare(left, right);
    return left < right ? -1 : left > right ? 1 : 0;
  };
  test(`${name}: any two values: bytes in their order, no encoding a prefix of another, read back as written`, () => {
    fc.assert(
      fc.property(values, values, (left, right) => {
        const [first, second] = [left, right].map((value) => bytesOf((writer) => write(writer, value))) as [Uint8Array, Uint8Array];
        assert.equal(Math.sign(Buffer.compare(first, second)), Math.sign(compare(left, right)));
        if (compare(left, right) !== 0) assert.notDeepEqual(first, second.subarray(0, first.length));
        const reader = new ByteReader(first);
        assert.deepEqual(read(reader), left);
        reader.end();
      }),
      { numRuns: 500 },
    );
  });
}

const noNegativeZero = fc.double({ noNaN: true }).map((value) => (value === 0 ? 0 : value));
const manyZeros = fc.uint8Array({ maxLength: 6 }).map((bytes) => bytes.map((byte) => (byte < 128 ? byte % 2 : byte | 0xfe)));

ordered("ordered i64", i64, writeOrderedI64, readOrderedI64);
ordered("ordered i32", fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }), writeOrderedI32, readOrderedI32);
ordered("ordered f64", noNegativeZero, writeOrderedF64, readOrderedF64);
ordered("ordered bytes", fc.oneof(fc.uint8Array({ maxLength: 20 }), manyZeros), writeOrderedBytes, readOrderedBytes);

test("ordered text: short, long, plain or not: the bytes of its UTF-8", () => {
  fc.assert(
    fc.property(
      fc.oneof(fc.string({ maxLength: 100 }), fc.string({ unit: "grapheme", maxLength: 30 }), fc.constantFrom("", "\u0000", "a\u0000b")),
      (text) => {
        const expected = bytesOf((writer) => writeOrderedBytes(writer, new TextEncoder().encode(text)));
        assert.deepEqual(
          bytesOf((writer) => writeOrderedText(writer, text)),
          expected,
        );
      },
    ),
  );
});

test("writer and reader: every kind of value: read back as written", () => {
  const values = fc.record({
    small: fc.nat(255),
    count: fc.nat(2 ** 32 - 1),
    long: i64,
    int: fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }),
    double: fc.double(),
    text: fc.oneof(fc.string({ unit: "grapheme", maxLength: 90 }), fc.string({ maxLength: 90 })),
    bytes: fc.uint8Array({ maxLength: 5000 }),
  });
  fc.assert(
    fc.property(values, ({ small, count, long, int, double, text, bytes }) => {
      const written = bytesOf((writer) =>
        writer
          .u8(small)
          .varint(count)
          .u32(count)
          .i64(long)
          .u64(BigInt.asUintN(64, long))
          .i32(int)
          .f64(double)
          .text(text)
          .bytes(bytes)
          .raw(bytes),
      );
      const reader = new ByteReader(written);
      assert.deepEqual(
        [reader.u8(), reader.varint(), reader.u32(), reader.i64(), reader.u64()],
        [small, count, count, long, BigInt.asUintN(64, long)],
      );
      assert.deepEqual([reader.i32(), reader.f64(), reader.text()], [int, double, text]);
      assert.deepEqual(
        [reader.bytes(), reader.raw(bytes.length)].map((read) => Uint8Array.from(read)),
        [bytes, bytes],
      );
      reader.end();
    }),
  );
});

test("reader: timestamp: 63 bits as written, a negative one CORRUPT_DATA", () => {
  const stored = (value: bigint): ByteReader => new ByteReader(new ByteWriter().i64(value).finish());
  for (const value of [0n, 1n, (1n << 63n) - 1n]) assert.equal(stored(value).timestampUs(), value);
  for (const value of [-1n, -(1n << 63n)]) assert.throws(() => stored(value).timestampUs(), { code: "CORRUPT_DATA" });
});

test("writer: another one is begun before the first is finished: neither sees the other's bytes", () => {
  const outer = new ByteWriter().text("outer");
  const inner = new ByteWriter().text("inner");
  assert.deepEqual(
    inner.finish(),
    bytesOf((writer) => writer.text("inner")),
  );
  const next = new ByteWriter().text("next");
  assert.deepEqual(
    outer.text("!").finish(),
    bytesOf((writer) => writer.text("outer").text("!")),
  );
  assert.deepEqual(
    next.finish(),
    bytesOf((writer) => writer.text("next")),
  );
});

test("writer: used after its end: a failed assertion, and what was finished stays", () => {
  const writer = new ByteWriter().u8(1);
  const finished = writer.finish();
  assert.throws(() => writer.u8(2), { code: "INTERNAL" });
  new ByteWriter().u8(9).finish();
  assert.deepEqual(finished, Uint8Array.of(1));
});

test("reader: any bytes read as anything: a value or CORRUPT_DATA, never past the end (I2)", () => {
  const reads: ((reader: ByteReader) => unknown)[] = [
    (reader) => reader.u8(),
    (reader) => reader.u32(),
    (reader) => reader.u64(),
    (reader) => reader.f64(),
    (reader) => reader.varint(),
    (reader) => reader.bytes(),
    (reader) => reader.text(),
    readOrderedBytes,
    readOrderedI64,
    readOrderedText,
  ];
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 30 }), fc.array(fc.constantFrom(...reads), { maxLength: 8 }), (bytes, actions) => {
      const reader = new ByteReader(bytes);
      try {
        for (const action of actions) action(reader);
        assert.ok(reader.remaining >= 0);
        reader.end();
      } catch (thrown) {
        assert.ok(thrown instanceof ConcordError && thrown.code === "CORRUPT_DATA", String(thrown));
      }
    }),
    { numRuns: 500 },
  );
});

test("sealed record: version 1: golden bytes", () => {
  assert.equal(Buffer.from(sealRecord(1, Uint8Array.of(1, 2, 3), checksum)).toString("hex"), "0155bc801d010203");
});

test("sealed record: cut, flipped or newer: refused with CORRUPT_DATA (I3)", () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 1, maxLength: 40 }), fc.nat(), fc.integer({ min: 1, max: 255 }), (body, at, flip) => {
      const record = sealRecord(1, body, checksum);
      assert.deepEqual(Uint8Array.from(openRecord(record, 1, checksum).body), body);
      const flipped = Uint8Array.from(record);
      flipped[at % record.length]! ^= flip;
      assert.throws(() => openRecord(flipped, 1, checksum), { code: "CORRUPT_DATA" });
      assert.throws(() => openRecord(record.subarray(0, at % record.length), 1, checksum), { code: "CORRUPT_DATA" });
      assert.throws(() => openRecord(sealRecord(2, body, checksum), 1, checksum), { code: "CORRUPT_DATA" });
      assert.equal(openRecord(sealRecord(2, body, checksum), 2, checksum).version, 2);
    }),
  );
});

test("text that begins with a byte order mark: it is part of the text, as a value and in a key (I1)", () => {
  for (const text of ["\uFEFF", "\uFEFFa", "\uFEFF\uFEFFa", `\uFEFF${"long".repeat(40)}`]) {
    assert.equal(new ByteReader(bytesOf((writer) => writer.text(text))).text(), text);
    assert.equal(readOrderedText(new ByteReader(bytesOf((writer) => writeOrderedText(writer, text)))), text);
  }
});

test("writer: short records share memory, and none is written again: each stays as it was finished", () => {
  const records = Array.from({ length: 500 }, (_, nth) => bytesOf((writer) => writer.raw(new Uint8Array(nth).fill(nth % 256))));
  for (const [nth, record] of records.entries()) assert.deepEqual(record, new Uint8Array(nth).fill(nth % 256));
  assert.ok(new Set(records.map(({ buffer }) => buffer)).size < 30);
  const long = bytesOf((writer) => writer.raw(new Uint8Array(10_000)));
  assert.equal(long.buffer.byteLength, 10_000);
});

test("sealed: what a writer has is sealed as its bytes are, short or long, and the writer is finished", () => {
  for (const length of [0, 1, 2_043, 2_044, 8_192, 10_000]) {
    const body = new Uint8Array(length).map((_, at) => at);
    const writer = new ByteWriter().raw(body);
    const record = sealRecord(1, writer, checksum);
    assert.deepEqual(record, sealRecord(1, body, checksum), `${length} bytes`);
    assert.deepEqual(Uint8Array.from(openRecord(record, 1, checksum).body), body);
    assert.throws(() => writer.u8(1), /finished writer/);
  }
});

test("keyText: a unit per byte, whatever the array lies in; texts compare as the bytes do", () => {
  const key = fc.uint8Array({ maxLength: 80 });
  fc.assert(
    fc.property(key, key, (left, right) => {
      const inside = new Uint8Array([1, 2, ...left, 3]).subarray(2, 2 + left.length);
      assert.equal(keyText(inside), Array.from(left, (byte) => String.fromCharCode(byte)).join(""));
      const [one, other] = [keyText(left), keyText(right)];
      assert.equal(one < other ? -1 : one > other ? 1 : 0, Math.sign(compareBytes(left, right)));
    }),
  );
});

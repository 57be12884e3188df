// Record batches as they are on the wire: golden bytes, everything of a message, markers, aborted transactions, damage, codecs.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { test } from "node:test";
import fc from "fast-check";
import { crc32c } from "@concord/checksums";
import { messageBytes, type NewMessage } from "@concord/ports";
import { decompress } from "./compression.ts";
import { BATCH_OVERHEAD_BYTES } from "./limits.ts";
import { decodeBatches, encodeBatch, type BatchProducer } from "./record-batch.ts";

const NOW_MS = 1_800_000_000_000;
const utf8 = (text: string): Uint8Array => Buffer.from(text);
const message = (text: string, timestampMs = 7): NewMessage => ({ key: utf8("k"), value: utf8(text), headers: [], timestampMs });
const encode = (messages: readonly NewMessage[], producer?: BatchProducer): Buffer => encodeBatch(messages, producer, NOW_MS);
const decode = (bytes: Buffer, from = 0n, aborted: Parameters<typeof decodeBatches>[2] = []) => decodeBatches(bytes, from, aborted);

/** The batch at another offset, and with other attributes and records if they are given. */
function changed(batch: Buffer, change: { readonly offset?: bigint; readonly attributes?: number; readonly records?: Buffer }): Buffer {
  const bytes = Buffer.concat([batch.subarray(0, BATCH_OVERHEAD_BYTES), change.records ?? batch.subarray(BATCH_OVERHEAD_BYTES)]);
  bytes.writeBigInt64BE(change.offset ?? 0n, 0);
  bytes.writeInt32BE(bytes.length - 12, 8);
  if (change.attributes !== undefined) bytes.writeInt16BE(change.attributes, 21);
  bytes.writeUInt32BE(crc32c(bytes.subarray(21)), 17);
  return bytes;
}

/** The end of a transaction: its key is version and kind. */
function marker(offset: bigint, producerId: bigint, kind: "abort" | "commit"): Buffer {
  const producer = { id: producerId, epoch: 0, sequence: -1, isTransactional: true };
  const batch = encode(
    [{ key: Uint8Array.of(0, 0, 0, kind === "abort" ? 0 : 1), value: utf8("end"), headers: [], timestampMs: 7 }],
    producer,
  );
  return changed(batch, { offset, attributes: 16 | 32 });
}

test("record batch: golden bytes", () => {
  const producer = { id: 5n, epoch: 2, sequence: 9, isTransactional: true };
  const sent = [
    { key: utf8("k"), value: utf8("v"), headers: [{ name: "h", value: utf8("x") }], timestampMs: 3 },
    { ...message("w", 1), key: null },
  ];
  const bytes = encode(sent, producer);
  assert.equal(bytes.subarray(0, 17).toString("hex"), "0000000000000000" + "00000046" + "ffffffff" + "02");
  assert.equal(bytes.readUInt32BE(17), crc32c(bytes.subarray(21)));
  assert.equal(
    bytes.subarray(21, 61).toString("hex"),
    "001000000001" + "0000000000000001" + "0000000000000003" + "0000000000000005" + "0002" + "00000009" + "00000002",
  );
  assert.equal(bytes.subarray(61).toString("hex"), "18000400026b027602026802780e00000201027700");
});

test("record batch: several: leader epochs of the whole ones, each with the offset at which it begins", () => {
  const ofEpoch = (epoch: number, offset: bigint): Buffer => {
    const batch = changed(encode([message("m")]), { offset });
    batch.writeInt32BE(epoch, 12);
    return batch;
  };
  const bytes = Buffer.concat([ofEpoch(3, 0n), ofEpoch(4, 1n), ofEpoch(4, 2n), ofEpoch(5, 3n).subarray(0, 40)]);
  const { next, epochs } = decode(bytes);
  const starts = [
    { offset: 0n, epoch: 3 },
    { offset: 1n, epoch: 4 },
  ];
  assert.deepEqual([next, epochs], [3n, starts]);
  assert.deepEqual(decode(Buffer.alloc(0)).epochs, []);
});

test("record batch: any messages: come back as they were, and need no more bytes than was said", () => {
  const header = fc.record({ name: fc.string({ maxLength: 20 }), value: fc.option(fc.uint8Array({ maxLength: 20 })) });
  const sent = fc.record({
    key: fc.option(fc.uint8Array({ maxLength: 30 })),
    value: fc.option(fc.uint8Array({ maxLength: 200 })),
    headers: fc.array(header, { maxLength: 5 }),
    timestampMs: fc.integer({ min: 0, max: NOW_MS }),
  });
  fc.assert(
    fc.property(fc.array(sent, { minLength: 1, maxLength: 20 }), (messages) => {
      const bytes = encode(messages);
      assert.ok(bytes.length <= messages.reduce((sum, each) => sum + messageBytes(each), BATCH_OVERHEAD_BYTES));
      const { messages: read, next } = decode(changed(bytes, { offset: 100n }));
      assert.deepEqual(
        read,
        messages.map((each, at) => ({
          ...each,
          headers: each.headers.map((one) => ({ ...one, name: Buffer.from(one.name).toString() })),
          offset: 100n + BigInt(at),
        })),
      );
      assert.equal(next, 100n + BigInt(messages.length));
    }),
    { numRuns: 100, seed: 20261122 },
  );
});

test("record batch: from its middle on; cut at the end: left for the next fetch", () => {
  const bytes = Buffer.concat([encode([message("a"), message("b")]), changed(encode([message("c")]), { offset: 2n })]);
  assert.deepEqual(
    decode(bytes, 1n).messages.map(({ offset }) => offset),
    [1n, 2n],
  );
  const cut = decode(bytes.subarray(0, bytes.length - 1));
  assert.deepEqual([cut.messages.length, cut.next], [2, 2n]);
  assert.deepEqual(decode(bytes.subarray(0, 30)), { messages: [], next: undefined, epochs: [] });
});

test("record batch: markers and aborted transactions: passed, and only those", () => {
  const by = (id: bigint, offset: bigint, text: string): Buffer =>
    changed(encode([message(text)], { id, epoch: 0, sequence: 0, isTransactional: true }), { offset });
  const plain = (offset: bigint, text: string): Buffer => changed(encode([message(text)]), { offset });
  const bytes = Buffer.concat([
    by(1n, 0n, "aborted"),
    by(2n, 1n, "committed"),
    plain(2n, "plain"),
    marker(3n, 1n, "abort"),
    by(1n, 4n, "again, committed"),
    marker(5n, 2n, "commit"),
    marker(6n, 1n, "commit"),
  ]);
  const { messages, next } = decode(bytes, 0n, [{ producerId: 1n, firstOffset: 0n }]);
  assert.deepEqual(
    messages.map(({ value }) => Buffer.from(value!).toString()),
    ["committed", "plain", "again, committed"],
  );
  assert.equal(next, 7n, "behind the last marker");
});

test("record batch: a flipped bit, another format: refused with its offset", () => {
  const bytes = changed(encode([message("a")]), { offset: 41n });
  for (const at of [21, 30, 60, bytes.length - 1]) {
    const flipped = Buffer.from(bytes);
    flipped[at]! ^= 4;
    assert.throws(() => decode(flipped), /record batch at offset 41 cannot be read.*checksum/);
  }
  const old = Buffer.from(bytes);
  old[16] = 1;
  assert.throws(() => decode(old), /offset 41 cannot be read.*format is 1/);
});

/** "abcabcabcabcabc!" as each codec writes it: a literal, a copy that overlaps itself, a literal. */
const TEXT = "abcabcabcabcabc!";
const SNAPPY = Buffer.from([16, 2 << 2, 97, 98, 99, (11 << 2) | 2, 3, 0, 0, 33]);
const XERIAL = Buffer.concat([
  Buffer.from([0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, SNAPPY.length]),
  SNAPPY,
]);
const LZ4_BLOCK = Buffer.from([(3 << 4) | (12 - 4), 97, 98, 99, 3, 0, 1 << 4, 33]);
const LZ4 = Buffer.concat([Buffer.from([0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82, LZ4_BLOCK.length, 0, 0, 0]), LZ4_BLOCK, Buffer.alloc(4)]);

for (const [name, codec, bytes] of [
  ["gzip", 1, gzipSync(TEXT)],
  ["snappy, one block", 2, SNAPPY],
  ["snappy, in Java's frame", 2, XERIAL],
  ["lz4", 3, LZ4],
  ["zstd", 4, zstdCompressSync(TEXT)],
] as const) {
  test(`codec: ${name}: read; cut: refused`, () => {
    assert.equal(decompress(codec, bytes).toString(), TEXT);
    assert.throws(() => decompress(codec, bytes.subarray(0, bytes.length - 5)));
  });
}

test("codec: a compressed batch: read; an unknown codec: refused with the offset", () => {
  const plain = encode([message("a"), message("b")]);
  const packed = (codec: number): Buffer =>
    changed(plain, { offset: 8n, attributes: codec, records: zstdCompressSync(plain.subarray(BATCH_OVERHEAD_BYTES)) });
  assert.equal(decode(packed(4)).messages.length, 2);
  assert.throws(() => decode(packed(6)), /record batch at offset 8 cannot be read: .*no codec has the number 6/);
});

test("codec: bytes that are none: refused, never an endless loop", () => {
  fc.assert(
    fc.property(fc.integer({ min: 2, max: 3 }), fc.uint8Array({ maxLength: 200 }), (codec, bytes) => {
      try {
        decompress(codec, Buffer.from(bytes));
      } catch (error) {
        assert.ok(error instanceof Error);
      }
    }),
    { numRuns: 500, seed: 20261122 },
  );
});

/** 51 200 bytes without a pattern: more than gzip looks back. */
const random = Buffer.concat(Array.from({ length: 1_600 }, (_, at) => createHash("sha256").update(String(at)).digest()));

for (const [what, value, codec] of [
  ["of the most bytes that its topic takes: as it is", Buffer.alloc(9_000, "x"), 0],
  ["larger, and it was compressed by its producer: by gzip", Buffer.alloc(1_000_000, "x"), 1],
  ["larger, and no gzip makes it fit: by zstd", Buffer.concat(Array(20).fill(random)), 4],
] as const) {
  test(`record batch: a message ${what}`, () => {
    const recordBytesMax = codec === 4 ? 100_000 : 10_000;
    const sent: NewMessage = { key: utf8("k"), value, headers: [{ name: "h", value: null }], timestampMs: 7 };
    const batch = encodeBatch([sent], { id: 1n, epoch: 0, sequence: 0, isTransactional: true }, NOW_MS, recordBytesMax);
    assert.deepEqual([batch.readInt16BE(21) & 7, batch.length <= recordBytesMax + BATCH_OVERHEAD_BYTES], [codec, true]);
    const [came, ...more] = decode(batch).messages;
    assert.deepEqual([Buffer.compare(came!.value!, value), came!.headers, more], [0, sent.headers, []]);
  });
}

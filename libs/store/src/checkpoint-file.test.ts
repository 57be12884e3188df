// The checkpoint file's bytes, of every version that a folder may hold.
import assert from "node:assert/strict";
import { test } from "node:test";
import { crc32 } from "node:zlib";
import { decodeCheckpoint, encodeCheckpoint } from "./checkpoint-file.ts";

const checksum = (data: Uint8Array, before?: number): number => crc32(data, before);
const bytesOf = (hex: string): Uint8Array => new Uint8Array(Buffer.from(hex, "hex"));

const CHECKPOINT = {
  number: 7n,
  position: 1_000n,
  evidence: Uint8Array.of(1, 2),
  left: { from: 900n, namespaces: Uint8Array.of(0x62, 0x6c) },
  sums: [{ range: 0x72, count: 3, sum: 2 ** 40 }],
  scannedMs: 1_800_000_000_000,
  keys: { bytes: 12, checksum: 0xdeadbeef },
  suspects: [],
};
const SUSPECTS = [
  { from: Uint8Array.of(0x72, 1), to: Uint8Array.of(0x72, 1, 0) },
  { from: Uint8Array.of(0x72, 5), to: Uint8Array.of(0x73) },
];
const UNSCANNED = { scannedMs: undefined, keys: undefined };
const VERSION_1 = "011d41f60b000000000000000700000000000003e87200000000000000030000010000000000";
const VERSION_2 = "0290f49228000000000000000700000000000003e8020102000000000000038402626c7200000000000000030000010000000000";
const VERSION_3 =
  "032b57a8b1000000000000000700000000000003e8020102000000000000038402626c03000001a3185c5000000000000000000cdeadbeef7200000000000000030000010000000000";
const VERSION_4 =
  "04837ef089000000000000000700000000000003e8020102000000000000038402626c03000001a3185c5000000000000000000cdeadbeef000000020272010372010002720501737200000000000000030000010000000000";

test("checkpoint file: version 4: golden bytes of suspect ranges, and back", () => {
  const suspect = { ...CHECKPOINT, suspects: SUSPECTS };
  assert.equal(Buffer.from(encodeCheckpoint(suspect, checksum)).toString("hex"), VERSION_4);
  assert.deepEqual(decodeCheckpoint(bytesOf(VERSION_4), checksum), suspect);
});

test("checkpoint file: version 3: golden bytes, and back, with and without a scan and keys", () => {
  assert.equal(Buffer.from(encodeCheckpoint(CHECKPOINT, checksum)).toString("hex"), VERSION_3);
  assert.deepEqual(decodeCheckpoint(bytesOf(VERSION_3), checksum), CHECKPOINT);
  const unscanned = { ...CHECKPOINT, ...UNSCANNED };
  assert.deepEqual(decodeCheckpoint(encodeCheckpoint(unscanned, checksum), checksum), unscanned);
});

test("checkpoint file: version 2: read, without scan and keys; version 1: with neither evidence nor namespaces; version 5: CORRUPT_DATA", () => {
  assert.deepEqual(decodeCheckpoint(bytesOf(VERSION_2), checksum), { ...CHECKPOINT, ...UNSCANNED });
  const left = { from: 1_000n, namespaces: new Uint8Array() };
  assert.deepEqual(decodeCheckpoint(bytesOf(VERSION_1), checksum), { ...CHECKPOINT, ...UNSCANNED, evidence: new Uint8Array(), left });
  assert.throws(() => decodeCheckpoint(bytesOf(`05${VERSION_3.slice(2)}`), checksum), { code: "CORRUPT_DATA" });
});

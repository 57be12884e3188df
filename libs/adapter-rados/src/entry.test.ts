import assert from "node:assert/strict";
import { test } from "node:test";
import { crc32c } from "@concord/checksums";
import { decodeEntry, encodeEntry, type Entry } from "./entry.ts";

const description = { bucket: "photos", key: "\u00e4/\u{1f600}", part: { uploadId: 2n ** 63n, number: 10_000 }, guid: 2n ** 62n };
const whole = { bucket: "b", key: "", part: undefined, guid: 0n };

const ENTRIES: readonly Entry[] = [
  { kind: "begun", stripes: 4, description },
  { kind: "begun", stripes: 1280, description: whole },
  { kind: "sealed", stripes: 1280, description, sealed: { lengthBytes: 5 * 1024 ** 3, checksum: 0xffff_ffff } },
  { kind: "removing", stripes: 0, description },
  { kind: "burning", stripes: 16, description: whole },
  { kind: "burnt", stripes: 16 },
];

test("entry: each kind: round trip; each flipped byte: refused", () => {
  for (const entry of ENTRIES) {
    const bytes = encodeEntry(entry, crc32c);
    assert.deepEqual(decodeEntry(bytes, crc32c), entry);
    for (let at = 0; at < bytes.length; at += 1) {
      const damaged = bytes.slice();
      damaged[at]! ^= 0x40;
      assert.throws(() => decodeEntry(damaged, crc32c), { code: "CORRUPT_DATA" });
    }
  }
});

test("entry: version 1 as it is stored", () => {
  const sealed = encodeEntry({ kind: "sealed", stripes: 1, description: whole, sealed: { lengthBytes: 5, checksum: 7 } }, crc32c);
  assert.equal(Buffer.from(sealed).toString("hex"), GOLDEN_SEALED);
  assert.equal(Buffer.from(encodeEntry({ kind: "begun", stripes: 4, description }, crc32c)).toString("hex"), GOLDEN_BEGUN);
});

test("entry: bucket and key longer than the limit: LIMIT_EXCEEDED", () => {
  const long = { ...whole, key: "k".repeat(5000) };
  assert.throws(() => encodeEntry({ kind: "begun", stripes: 4, description: long }, crc32c), { code: "LIMIT_EXCEEDED" });
});

const GOLDEN_SEALED = "017529372d0100000001016200000000000000000000000000000000000000000000000000000000000500000007";
const GOLDEN_BEGUN = "017fe10a9600000000040670686f746f7307c3a42ff09f9880018000000000000000000027104000000000000000000000000000000000000000";

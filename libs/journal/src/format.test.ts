// Version 1 as bytes: what is on disks already must stay readable.
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryDisk } from "@concord/port-contracts";
import { decodeSegmentHeader, encodeSegmentHeader, SEGMENT_HEADER_BYTES } from "./format.ts";
import { checksum, collect, countingRandom, everything, openOn, segmentPaths, text } from "./test/memory-journal.ts";

const GOLDEN = [
  "434e43444a524e4ca575b08b0100000025303b46515c677200000000000000010000000000000000000000000000000000000000000000000000000000000000",
  "5b113ed6010100000000000525303b46515c677200000000000000000000000100000040",
  "68656c6c6f",
  "1d4bdd52010100000000000525303b46515c677200000000000000010000000300000040",
  "756e697473",
  "76cf1c8a010200000000000325303b46515c677200000000000000040000000100000092",
  "616c6c",
];

test("format: version 1: a journal of two groups and a checkpoint, byte for byte", async () => {
  const disk = new MemoryDisk();
  const journal = await openOn(disk, { random: countingRandom() });
  await Promise.all([journal.append(text("hello")), journal.append(text("units"), 3)]);
  await journal.checkpoint(() => text("all"));
  const bytes = disk.files.contents().get(segmentPaths(disk)[0]!)!;
  assert.equal(Buffer.from(bytes).toString("hex"), GOLDEN.join(""));
});

test("format: version 1: the golden bytes are read", async () => {
  const disk = new MemoryDisk();
  await disk.makeFolder("journal");
  const file = await disk.create("journal/0000000000000001.journal");
  assert.ok(file !== "exists");
  await file.write(0, [Uint8Array.from(Buffer.from(GOLDEN.join(""), "hex"))]);
  const journal = await openOn(disk, { strict: true });
  assert.deepEqual(await everything(journal), ["0:hello", "1x3:units", "4!all"]);
  assert.deepEqual(await collect(journal.readBackward()), ["4!all", "1x3:units", "0:hello"]);
});

test("format: segment header: round trip; every flipped bit is refused", () => {
  const id = Uint8Array.from({ length: 8 }, (_, at) => at + 1);
  const headers = [
    { id, ordinal: 1, firstSequence: 0n, previous: undefined, lastSequenceBefore: undefined, isPrepared: false },
    {
      id,
      ordinal: 2 ** 40,
      firstSequence: 2n ** 60n,
      previous: { ordinal: 7, end: 2 ** 30 },
      lastSequenceBefore: 2n ** 60n - 9n,
      isPrepared: true,
    },
  ];
  for (const header of headers) {
    const bytes = encodeSegmentHeader(header, checksum);
    assert.equal(bytes.length, SEGMENT_HEADER_BYTES);
    assert.deepEqual(decodeSegmentHeader(bytes, checksum), header);
    for (let bit = 0; bit < 8 * bytes.length; bit += 1) {
      bytes[bit >> 3]! ^= 1 << (bit & 7);
      assert.equal(decodeSegmentHeader(bytes, checksum), undefined, `bit ${bit}`);
      bytes[bit >> 3]! ^= 1 << (bit & 7);
    }
    assert.equal(decodeSegmentHeader(bytes.subarray(0, -1), checksum), undefined);
  }
});

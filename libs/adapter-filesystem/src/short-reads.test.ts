// Short reads of a segment: made together where they lie close together, each answered as if it were alone.
import assert from "node:assert/strict";
import { crc32 } from "node:zlib";
import { test } from "node:test";
import { diskOver, MemoryFiles } from "@concord/port-contracts";
import { oidOf } from "@concord/ports";
import { FilesystemObjectData } from "./filesystem-object-data.ts";
import { LIKELY_TRAILER_BYTES, SHORT_READ_BYTES_MAX, SHORT_READS_BYTES_MAX, SHORT_READS_GAP_BYTES_MAX } from "./limits.ts";
import { ShortReads } from "./short-reads.ts";
import { random } from "./test/drawn.ts";

/** Byte n is n % 251: what is read of it. */
class Bytes {
  readonly calls: (readonly [offset: number, lengthBytes: number])[] = [];
  readonly sizeBytes: number;
  /** A byte that cannot be read. */
  damagedAt = -1;

  constructor(sizeBytes = 1024 * 1024) {
    this.sizeBytes = sizeBytes;
  }

  async read(offset: number, lengthBytes: number): Promise<Uint8Array> {
    this.calls.push([offset, lengthBytes]);
    if (offset <= this.damagedAt && this.damagedAt < offset + lengthBytes) throw new Error("a bad block");
    return this.expected(offset, lengthBytes);
  }

  expected(offset: number, lengthBytes: number): Uint8Array {
    return Uint8Array.from({ length: Math.max(0, Math.min(lengthBytes, this.sizeBytes - offset)) }, (_, at) => (offset + at) % 251);
  }
}

type Asked = readonly [offset: number, lengthBytes: number];

async function readTogether(bytes: Bytes, asked: readonly Asked[]): Promise<void> {
  const reads = new ShortReads(bytes);
  const answers = await Promise.all(asked.map(([offset, lengthBytes]) => reads.read(offset, lengthBytes)));
  assert.deepEqual(
    answers,
    asked.map(([offset, lengthBytes]) => bytes.expected(offset, lengthBytes)),
  );
}

test("short reads: in one turn and close together, in any order: one call, each has its own bytes", async () => {
  const bytes = new Bytes();
  await readTogether(bytes, [
    [9000, 100],
    [1000, 512],
    [1512, 8],
  ]);
  assert.deepEqual(bytes.calls, [[1000, 8100]]);
});

test("short reads: one overlaps another: a call of its own", async () => {
  const bytes = new Bytes();
  await readTogether(bytes, [
    [1000, 512],
    [1000, 512],
    [1511, 8],
  ]);
  assert.equal(bytes.calls.length, 3);
});

test("short reads: in two turns: two calls, the second does not wait for the first", async () => {
  const bytes = new Bytes();
  const never = {
    read: (offset: number, lengthBytes: number) => (offset === 0 ? new Promise<never>(() => {}) : bytes.read(offset, lengthBytes)),
  };
  const reads = new ShortReads(never);
  void reads.read(0, 8);
  await Promise.resolve();
  assert.deepEqual(await reads.read(8, 8), bytes.expected(8, 8));
});

for (const [situation, gapBytes, calls] of [
  ["at", SHORT_READS_GAP_BYTES_MAX, 1],
  ["above", SHORT_READS_GAP_BYTES_MAX + 1, 2],
] as const) {
  test(`short reads: ${situation} the limit of bytes between two: ${calls} ${calls === 1 ? "call" : "calls"}`, async () => {
    const bytes = new Bytes();
    await readTogether(bytes, [
      [100, 50],
      [150 + gapBytes, 50],
    ]);
    assert.equal(bytes.calls.length, calls);
  });
}

test("short reads: more than is read at once: several calls, none longer than the limit", async () => {
  const bytes = new Bytes();
  const count = 3 * (SHORT_READS_BYTES_MAX / 8192);
  await readTogether(
    bytes,
    Array.from({ length: count }, (_, at) => [at * 8192, SHORT_READ_BYTES_MAX] as const),
  );
  assert.equal(bytes.calls.length, 3);
  for (const [, lengthBytes] of bytes.calls) assert.ok(lengthBytes <= SHORT_READS_BYTES_MAX, String(lengthBytes));
});

test("short reads: bytes cannot be read: their own read fails, those beside it are answered", async () => {
  const bytes = new Bytes();
  bytes.damagedAt = 2000;
  const reads = new ShortReads(bytes);
  const answers = await Promise.allSettled([1000, 2000, 3000].map((offset) => reads.read(offset, 10)));
  assert.deepEqual(
    answers.map(({ status }) => status),
    ["fulfilled", "rejected", "fulfilled"],
  );
});

test("short reads: behind the file's end: as short as the file's own", async () => {
  const bytes = new Bytes(1010);
  await readTogether(bytes, [
    [1000, 8],
    [1008, 8],
    [1020, 8],
  ]);
});

for (const [situation, keyBytes, readsMax] of [
  ["fits the end that is read first: 64 blobs are looked at with a few reads", 10, 4],
  ["does not fit: one read more for each", LIKELY_TRAILER_BYTES, 68],
] as const) {
  test(`collection read the end of each blob by itself: the key ${situation}`, async () => {
    let reads = 0;
    const disk = diskOver(new MemoryFiles(), async ({ kind }, act) => {
      if (kind === "read") reads += 1;
      return act();
    });
    const data = new FilesystemObjectData({ disk, checksum: crc32, random, failpoint: () => undefined, packBytesMax: 64 * 1024 });
    const oids = Array.from({ length: 64 }, (_, sequence) => oidOf(1, sequence));
    const description = { bucket: "photos", key: "k".repeat(keyBytes), part: undefined, guid: 1n };
    for (const oid of oids) {
      const writer = await data.create(oid, description);
      await writer.write(new Uint8Array(4096));
      await writer.seal();
    }
    reads = 0;
    for (const state of await Promise.all(oids.map((oid) => data.inspect(oid))))
      assert.deepEqual([state.kind, state.kind === "absent" ? undefined : state.description], ["sealed", description]);
    assert.ok(reads > 0 && reads <= readsMax, `${reads} reads`);
    await data.close();
  });
}

// What a start and a first read cost: files and reads that are counted, not time.
import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryDisk, referenceCrc32c as checksum } from "@concord/port-contracts";
import { oidOf } from "@concord/ports";
import { ConcordError, toHex, type Disk } from "@concord/runtime";
import { FilesystemObjectData } from "./filesystem-object-data.ts";
import { decodeSegmentIndex, encodeSegmentIndex } from "./needle-format.ts";
import { random } from "./test/drawn.ts";

const COUNT = 200;
const INDEX = "pieces/00000001.closed/packed/index-00000000";
const blob = (at: number): Uint8Array => new Uint8Array(50).fill(at);

/** Reads of segments are counted. */
function counting(disk: MemoryDisk): { readonly data: FilesystemObjectData; readonly reads: () => number } {
  let reads = 0;
  const counted: Disk = {
    create: (path) => disk.create(path),
    list: (path) => disk.list(path),
    makeFolder: (path) => disk.makeFolder(path),
    syncFolder: (path) => disk.syncFolder(path),
    rename: (from, to) => disk.rename(from, to),
    remove: (path) => disk.remove(path),
    freeBytes: () => disk.freeBytes(),
    open: async (path) => {
      const file = await disk.open(path);
      if (file === undefined || !path.includes("/seg-")) return file;
      const read = file.read.bind(file);
      return Object.assign(file, {
        read: (offset: number, length: number) => {
          reads += 1;
          return read(offset, length);
        },
      });
    },
  };
  const data = new FilesystemObjectData({ disk: counted, checksum, random, failpoint: () => undefined, packBytesMax: 1000 });
  return { data, reads: () => reads };
}

async function closedEpoch(): Promise<MemoryDisk> {
  const disk = new MemoryDisk();
  const { data } = counting(disk);
  for (let at = 0; at < COUNT; at += 1) {
    const writer = await data.create(oidOf(1, at), { bucket: "b", key: "k", part: undefined, guid: 7n });
    await writer.write(blob(at));
    await writer.seal();
  }
  await data.closeEpoch(1);
  await data.close();
  return disk;
}

async function readAll(data: FilesystemObjectData): Promise<void> {
  for (let at = 0; at < COUNT; at += 1)
    for await (const bytes of data.read(oidOf(1, at), 0, 50)) assert.deepEqual(Uint8Array.from(bytes), blob(at));
}

/** What a fresh process reads of segments until it knows where each blob is. */
async function readsToKnow(disk: MemoryDisk): Promise<number> {
  const { data, reads } = counting(disk);
  assert.equal((await data.list({ epoch: 1, fromSequence: 0, limit: 1000 })).length, COUNT);
  const known = reads();
  await readAll(data);
  await data.close();
  return known;
}

test("start: the highest epoch is known without reading a segment", async () => {
  const { data, reads } = counting(await closedEpoch());
  assert.deepEqual([await data.epochs(), reads()], [[1], 0]);
});

test("a closed epoch's segments are scanned once: the next process reads their index", async () => {
  const disk = await closedEpoch();
  assert.equal(await readsToKnow(disk), 0, "who closes it writes it");
  await disk.remove(INDEX);
  assert.ok((await readsToKnow(disk)) >= COUNT);
  assert.ok(disk.files.contents().has(INDEX));
  assert.equal(await readsToKnow(disk), 0);
});

test("an index that is torn, spoilt or of another segment: the segment is scanned, and the index written anew", async () => {
  const disk = await closedEpoch();
  await readsToKnow(disk);
  const whole = Uint8Array.from(disk.files.contents().get(INDEX)!);
  const other = encodeSegmentIndex({ epoch: 1, segment: 9 }, { next: 10, needles: [] }, checksum);
  for (const bytes of [new Uint8Array(), whole.slice(0, 100), whole.map((byte, at) => (at === 40 ? byte ^ 1 : byte)), other]) {
    await disk.remove(INDEX);
    const file = await disk.create(INDEX);
    assert.ok(file !== "exists");
    await file.write(0, [bytes]);
    await file.close();
    assert.ok((await readsToKnow(disk)) >= COUNT);
    assert.deepEqual(Uint8Array.from(disk.files.contents().get(INDEX)!), whole);
  }
});

test("an index whose sector cannot be read: the segment is scanned, every blob is there", async () => {
  const disk = await closedEpoch();
  await readsToKnow(disk);
  const open = disk.open.bind(disk);
  const bad = Object.assign(Object.create(disk) as MemoryDisk, {
    open: async (path: string) => {
      const file = await open(path);
      if (file === undefined || path !== INDEX) return file;
      return Object.assign(file, { read: () => Promise.reject(new ConcordError("STORE_FAILED", "read: EIO")) });
    },
  });
  assert.ok((await readsToKnow(bad)) >= COUNT);
});

test("removals after the index was written hold; a segment that is compacted away takes its index along", async () => {
  const disk = await closedEpoch();
  await readsToKnow(disk);
  const { data } = counting(disk);
  for (let at = 1; at < COUNT; at += 1) assert.equal(await data.remove(oidOf(1, at)), true);
  await data.compact(1);
  await data.close();
  const names = [...disk.files.contents().keys()].filter((path) => path.includes("/index-"));
  assert.deepEqual(names, []);
  const next = counting(disk);
  assert.deepEqual(await next.data.list({ epoch: 1, fromSequence: 0, limit: 10 }), [oidOf(1, 0)]);
});

test("a crash after a segment went and before its index: the next process that reads the epoch removes the index", async () => {
  const disk = await closedEpoch();
  const orphan = INDEX.replace("index-00000000", "index-00000007");
  await disk.create(orphan);
  await readsToKnow(disk);
  assert.ok(!disk.files.contents().has(orphan));
  assert.ok(disk.files.contents().has(INDEX));
});

test("an index without its segment that cannot be removed (a disk that is read only): every blob is there", async () => {
  const disk = await closedEpoch();
  await disk.create(INDEX.replace("index-00000000", "index-00000007"));
  const readOnly = Object.assign(Object.create(disk) as MemoryDisk, {
    remove: () => Promise.reject(new ConcordError("STORE_FAILED", "remove: EROFS")),
  });
  await readsToKnow(readOnly);
});

test("segment index: golden bytes of version 1", () => {
  const name = { epoch: 42, segment: 3 };
  const index = { next: 99, needles: [{ sequence: 2 ** 40 + 5, offset: 33, lengthBytes: 66 }] };
  const bytes = encodeSegmentIndex(name, index, checksum);
  assert.equal(toHex(bytes), "434e4958010000002a0000000300000063000000010000010000000005000000210000004290aa26e2");
  assert.deepEqual(decodeSegmentIndex(bytes, name, checksum), index);
});

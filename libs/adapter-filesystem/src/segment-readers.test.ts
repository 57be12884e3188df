// Handles of segments: how many calls to the disk readers cost that come together, and that none is left behind.
import assert from "node:assert/strict";
import { test } from "node:test";
import { diskOver, MemoryFiles, referenceCrc32c as checksum } from "@concord/port-contracts";
import { oidOf, type Oid } from "@concord/ports";
import { ConcordError, type Disk, type DiskFile } from "@concord/runtime";
import { FilesystemObjectData } from "./filesystem-object-data.ts";
import { PACK_BYTES_MAX } from "./limits.ts";
import { SegmentReaders } from "./segment-readers.ts";
import { random } from "./test/drawn.ts";

const BLOBS = 100;
const isSegment = (path: string): boolean => path.includes("/seg-");

/** Counts the opens and closes of segments by readers: not those of the process that made them. */
class CountedDisk {
  readonly files = new MemoryFiles();
  opened = 0;
  closed = 0;
  failNextOpen = false;
  readonly disk: Disk;

  constructor() {
    const inner = diskOver(this.files, async (_call, act) => act());
    this.disk = { ...inner, open: (path) => this.#open(inner, path) };
  }

  async #open(inner: Disk, path: string): Promise<DiskFile | undefined> {
    if (!isSegment(path)) return await inner.open(path);
    this.opened += 1;
    if (this.failNextOpen) {
      this.failNextOpen = false;
      throw new ConcordError("STORE_FAILED", "EMFILE", { applied: "no" });
    }
    const file = await inner.open(path);
    if (file === undefined) return undefined;
    return {
      size: file.size,
      read: (offset, length) => file.read(offset, length),
      write: (offset, parts) => file.write(offset, parts),
      writeSynced: (offset, parts) => file.writeSynced(offset, parts),
      sync: () => file.sync(),
      truncate: (size) => file.truncate(size),
      close: async () => {
        this.closed += 1;
        await file.close();
      },
    };
  }
}

async function packed(counted: CountedDisk): Promise<{ readonly data: FilesystemObjectData; readonly oids: readonly Oid[] }> {
  const data = new FilesystemObjectData({ disk: counted.disk, checksum, random, failpoint: () => undefined, packBytesMax: PACK_BYTES_MAX });
  const oids = Array.from({ length: BLOBS }, (_, sequence) => oidOf(1, sequence));
  for (const oid of oids) {
    const writer = await data.create(oid, { bucket: "b", key: oid, part: undefined, guid: 7n });
    await writer.write(new TextEncoder().encode(oid));
    await writer.seal();
  }
  counted.opened = 0;
  counted.closed = 0;
  return { data, oids };
}

test("collection opened and closed a segment for each blob that it looked at: those looked at together share a handle", async () => {
  const counted = new CountedDisk();
  const { data, oids } = await packed(counted);
  const states = await Promise.all(oids.map((oid) => data.inspect(oid)));
  assert.deepEqual(new Set(states.map(({ kind }) => kind)), new Set(["sealed"]));
  assert.deepEqual([counted.opened, counted.closed], [1, 1]);
  assert.equal((await data.inspect(oids[0]!)).kind, "sealed");
  assert.deepEqual([counted.opened, counted.closed], [2, 2], "no handle stays open without a reader");
  await data.close();
});

test("segment readers: a second close of one reader does not take the handle from the others", async () => {
  const counted = new CountedDisk();
  await packed(counted);
  const [path] = [...counted.files.contents()].flatMap(([name]) => (isSegment(name) ? [name] : []));
  const readers = new SegmentReaders(counted.disk);
  const [first, second] = await Promise.all([readers.open(path!), readers.open(path!)]);
  await first!.close();
  await first!.close();
  assert.equal(counted.closed, 0);
  assert.equal((await second!.read(0, 4)).length, 4);
  await second!.close();
  assert.deepEqual([counted.opened, counted.closed], [1, 1]);
});

test("segment readers: an open fails, or finds nothing: all who share it get that, and the next one opens again", async () => {
  const counted = new CountedDisk();
  await packed(counted);
  const [path] = [...counted.files.contents()].flatMap(([name]) => (isSegment(name) ? [name] : []));
  const readers = new SegmentReaders(counted.disk);
  counted.failNextOpen = true;
  const refused = await Promise.allSettled([readers.open(path!), readers.open(path!)]);
  assert.deepEqual(
    refused.map(({ status }) => status),
    ["rejected", "rejected"],
  );
  assert.deepEqual(await Promise.all([readers.open(`${path}0`), readers.open(`${path}0`)]), [undefined, undefined]);
  const file = await readers.open(path!);
  assert.equal((await file!.read(0, 4)).length, 4);
  await file!.close();
  assert.deepEqual([counted.opened, counted.closed], [3, 1]);
});

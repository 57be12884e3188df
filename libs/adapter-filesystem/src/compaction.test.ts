// One test per row of the table of compactions in the README.
import assert from "node:assert/strict";
import { test } from "node:test";
import { diskOver, MemoryDisk, referenceCrc32c as checksum } from "@concord/port-contracts";
import { oidOf, type Oid } from "@concord/ports";
import { silentLog, type Disk, type DiskFile } from "@concord/runtime";
import { NEEDLE_PREFIX_BYTES } from "./needle-format.ts";
import { FilesystemObjectData, type FilesystemOptions } from "./filesystem-object-data.ts";
import { ROOM_PER_WAITING_BYTE } from "./limits.ts";
import { random } from "./test/drawn.ts";

const SEGMENT_BYTES = 4_000;
const LENGTH = 1_000;
const oids = (count: number): Oid[] => Array.from({ length: count }, (_, at) => oidOf(1, at));

const packing = (disk: Disk, options: Partial<FilesystemOptions> = {}): FilesystemObjectData =>
  new FilesystemObjectData({
    disk,
    checksum,
    random,
    failpoint: () => undefined,
    packBytesMax: LENGTH,
    segmentBytes: SEGMENT_BYTES,
    waitingDeadBytes: 0,
    ...options,
  });

const bytesFor = (oid: Oid): Uint8Array =>
  Uint8Array.from({ length: LENGTH }, (_, at) => (at * 7 + Number.parseInt(oid.slice(-4), 16)) & 255);

async function store(data: FilesystemObjectData, oid: Oid): Promise<void> {
  const writer = await data.create(oid, { bucket: "b", key: "k", part: undefined, guid: 7n });
  await writer.write(bytesFor(oid));
  await writer.seal();
}

/** Four needles fill a segment: five make a full one and one that is being written. */
async function filled(disk: Disk, count = 5, options: Partial<FilesystemOptions> = {}): Promise<FilesystemObjectData> {
  const data = packing(disk, options);
  for (const oid of oids(count)) await store(data, oid);
  return data;
}

async function remove(data: FilesystemObjectData, ...sequences: number[]): Promise<void> {
  for (const sequence of sequences) assert.equal(await data.remove(oidOf(1, sequence)), true);
  await data.compact(1);
}

const segments = (disk: MemoryDisk): string[] =>
  [...disk.files.contents().keys()].flatMap((path) => (path.includes("/seg-") ? [path.slice(path.lastIndexOf("-") + 1)] : []));

async function expectThere(data: FilesystemObjectData, there: readonly Oid[]): Promise<void> {
  assert.deepEqual(await data.list({ epoch: 1, fromSequence: 0, limit: 100 }), there);
  for (const oid of there) {
    const found: Uint8Array[] = [];
    for await (const chunk of data.read(oid, 0, LENGTH)) found.push(chunk);
    assert.deepEqual(Uint8Array.from(found.flatMap((chunk) => [...chunk])), bytesFor(oid), oid);
  }
}

const except = (count: number, ...removed: number[]): Oid[] => oids(count).filter((_, at) => !removed.includes(at));

test("[OGD14] the group that fills its segment: a compaction meanwhile: not of this segment, no blob of the group is lost", async () => {
  for (const removed of [
    [0, 1, 2],
    [0, 1],
  ]) {
    const { files } = new MemoryDisk();
    let afterSync: "not yet" | "synced" | "over" = "over";
    let compact: () => Promise<void> = () => Promise.resolve();
    // What may be slow between the group's sync and its seal: a look whether the epoch is still open.
    const disk = diskOver(files, async (call, act) => {
      await Promise.resolve();
      if (afterSync === "not yet" && call.kind === "sync") afterSync = "synced";
      if (afterSync === "synced" && call.kind === "names") {
        afterSync = "over";
        await compact();
      }
      return act();
    });
    const data = await filled(disk, 3);
    await remove(data, ...removed);
    afterSync = "not yet";
    compact = () => data.compact(1);
    await store(data, oidOf(1, 3));
    assert.equal(afterSync, "over");
    await data.compact(1);
    await expectThere(data, except(4, ...removed));
  }
});

test("compaction, nothing alive: taken away, nothing copied", async () => {
  const disk = new MemoryDisk();
  const data = await filled(disk);
  await remove(data, 0, 1, 2, 3);
  assert.deepEqual(segments(disk), ["00000001"]);
  await expectThere(packing(disk), except(5, 0, 1, 2, 3));
});

test("compaction, more than half dead: the live ones are copied, the segment is taken away", async () => {
  const disk = new MemoryDisk();
  const data = await filled(disk);
  await remove(data, 0, 1, 2);
  assert.deepEqual(segments(disk), ["00000001", "00000002"]);
  for (const each of [data, packing(disk)]) await expectThere(each, except(5, 0, 1, 2));
});

test("compaction, half dead: stays", async () => {
  const disk = new MemoryDisk();
  await remove(await filled(disk), 0, 1);
  assert.deepEqual(segments(disk), ["00000000", "00000001"]);
});

/** More than the dead bytes of a segment that has one needle of four left, less than those of two. */
const WAITING = { waitingDeadBytes: SEGMENT_BYTES };

test("compaction, our open epoch, as much is dead as may wait: copied when more is, the deadest first", async () => {
  const disk = new MemoryDisk();
  // Seven needles fill a segment.
  const data = await filled(disk, 15, { segmentBytes: 2 * SEGMENT_BYTES, waitingDeadBytes: 2 * SEGMENT_BYTES });
  await remove(data, 7, 8, 9, 10, 11);
  await remove(data, 0, 1, 2);
  assert.deepEqual(segments(disk), ["00000000", "00000001", "00000002"]);
  await remove(data, 3);
  assert.deepEqual(segments(disk), ["00000000", "00000002", "00000003"]);
  for (const each of [data, packing(disk)]) await expectThere(each, except(15, 0, 1, 2, 3, 7, 8, 9, 10, 11));
});

test("compaction, objects overwritten in turn: each segment goes with nothing alive, nothing is copied", async () => {
  const disk = new MemoryDisk();
  const created: string[] = [];
  const create: Disk["create"] = async (path) => (created.push(path), await disk.create(path));
  const data = packing({ ...withCalls(disk, async () => undefined), create }, { waitingDeadBytes: SEGMENT_BYTES });
  for (const oid of oids(60)) {
    await store(data, oid);
    const sequence = oids(60).indexOf(oid);
    if (sequence >= 6) await remove(data, sequence - 6);
  }
  assert.deepEqual(
    created.filter((path) => path.includes("/copy-")),
    [],
  );
  assert.ok(segments(disk).length <= 3, segments(disk).join());
  await expectThere(packing(disk), oids(60).slice(54));
});

test("compaction, our open epoch, the disk has little room: nothing waits", async () => {
  const disk = new MemoryDisk();
  let freeBytes = WAITING.waitingDeadBytes * ROOM_PER_WAITING_BYTE;
  const measured: Disk = { ...withCalls(disk, async () => undefined), freeBytes: () => Promise.resolve(freeBytes) };
  const data = await filled(measured, 9, WAITING);
  await remove(data, 0, 1, 2);
  assert.deepEqual(segments(disk), ["00000000", "00000001", "00000002"]);
  freeBytes -= 1;
  await data.compact(1);
  assert.deepEqual(segments(disk), ["00000001", "00000002", "00000003"]);
  await expectThere(data, except(9, 0, 1, 2));
});

test("compaction, dead bytes waited in an epoch that is closed now: they wait no longer", async () => {
  const disk = new MemoryDisk();
  const data = await filled(disk, 5, WAITING);
  await remove(data, 0, 1, 2);
  assert.deepEqual(segments(disk), ["00000000", "00000001"]);
  await data.closeEpoch(1);
  await remove(packing(disk, WAITING), 4);
  assert.deepEqual(segments(disk), ["00010000"]);
  await expectThere(packing(disk), [oidOf(1, 3)]);
});

/** Until what runs in the background does nothing any more. */
async function settled(disk: MemoryDisk): Promise<void> {
  for (let [before, quiet] = ["", 0]; quiet < 20; quiet += 1) {
    await new Promise((resolve) => setImmediate(resolve));
    const now = [...disk.files.contents().keys()].join();
    if (now !== before) [before, quiet] = [now, 0];
  }
}

test("compaction of closed epochs: one after the other, and none any more once the process closes", async () => {
  const disk = new MemoryDisk();
  for (const epoch of [1, 2, 3]) {
    const writer = packing(disk, WAITING);
    for (const at of [0, 1, 2, 3, 4]) await store(writer, oidOf(epoch, at));
    for (const at of [0, 1, 2]) await writer.remove(oidOf(epoch, at));
    await writer.compact(epoch);
    await writer.closeEpoch(epoch);
    await writer.close();
  }
  let [running, most, created] = [0, 0, 0];
  let resume: () => void = () => undefined;
  const create: Disk["create"] = async (path) => {
    if (!path.includes("/copy-")) return disk.create(path);
    created += 1;
    running += 1;
    most = Math.max(most, running);
    await new Promise<void>((resolve) => (resume = resolve));
    running -= 1;
    return disk.create(path);
  };
  const next = packing({ ...withCalls(disk, async () => undefined), create }, WAITING);
  for (const epoch of [1, 2, 3]) await next.list({ epoch, fromSequence: 0, limit: 1 });
  await settled(disk);
  assert.deepEqual([created, most], [1, 1]);
  resume();
  await settled(disk);
  assert.deepEqual([created, most], [2, 1]);
  const closed = next.close();
  resume();
  await closed;
  await settled(disk);
  assert.equal(created, 2);
});

/** What a process uses an epoch for first; nothing is removed. */
const FIRST_USES: readonly (readonly [use: string, act: (data: FilesystemObjectData) => Promise<unknown>])[] = [
  ["closes it again, as a recovery does", (data) => data.closeEpoch(1)],
  ["lists it", (data) => data.list({ epoch: 1, fromSequence: 0, limit: 1 })],
  ["reads of it", (data) => data.read(oidOf(1, 4), 0, LENGTH)[Symbol.asyncIterator]().next()],
];
for (const [use, act] of FIRST_USES) {
  test(`compaction, dead bytes waited in an epoch that is closed now, another process ${use}: they are gone, the blobs are there`, async () => {
    const disk = new MemoryDisk();
    const writer = await filled(disk, 5, WAITING);
    await remove(writer, 0, 1, 2);
    await writer.closeEpoch(1);
    await writer.close();
    assert.deepEqual(segments(disk), ["00000000", "00000001"]);
    await act(packing(disk, WAITING));
    await settled(disk);
    assert.deepEqual(segments(disk), ["00000001", "00010000"]);
    await expectThere(packing(disk), except(5, 0, 1, 2));
  });
}

test("compaction, an epoch that another one closes: who reads of it before and after compacts, once", async () => {
  const disk = new MemoryDisk();
  const writer = await filled(disk, 5, WAITING);
  const reader = packing(disk, WAITING);
  await expectThere(reader, oids(5));
  await remove(writer, 0, 1, 2);
  await writer.closeEpoch(1);
  await expectThere(reader, except(5, 0, 1, 2));
  await settled(disk);
  assert.deepEqual(segments(disk), ["00000001", "00010000"]);
  await expectThere(reader, except(5, 0, 1, 2));
  await settled(disk);
  assert.deepEqual(segments(disk), ["00000001", "00010000"]);
});

test("compaction, the segment that is written: stays, also with nothing alive", async () => {
  const disk = new MemoryDisk();
  const data = await filled(disk);
  await remove(data, 4);
  assert.deepEqual(segments(disk), ["00000000", "00000001"]);
  await store(data, oidOf(1, 5));
  await expectThere(packing(disk), [...oids(4), oidOf(1, 5)]);
});

test("compaction, another one's open epoch: stays", async () => {
  const disk = new MemoryDisk();
  const owner = await filled(disk);
  const other = packing(disk);
  await remove(other, 0, 1, 2, 3);
  assert.deepEqual(segments(disk), ["00000000", "00000001"]);
  for (const data of [owner, other]) await expectThere(data, except(5, 0, 1, 2, 3));
});

test("compaction, closed epoch: a process that removes a blob acquires the folder and compacts, the last segment too", async () => {
  const disk = new MemoryDisk();
  const owner = await filled(disk);
  const other = packing(disk);
  await other.closeEpoch(1);
  await remove(other, 0, 1, 2);
  assert.deepEqual(segments(disk), ["00000001", "00010000"]);
  for (const data of [owner, other, packing(disk)]) await expectThere(data, except(5, 0, 1, 2));
  await remove(packing(disk), 3, 4);
  assert.deepEqual(segments(disk), []);
  for (const data of [owner, other, packing(disk)]) await expectThere(data, []);
});

test("compaction, a blob is not whole: the segment stays and that is said", async () => {
  const disk = new MemoryDisk();
  await filled(disk);
  const path = [...disk.files.contents().keys()].find((name) => name.endsWith("seg-00000000"))!;
  const file = (await disk.open(path))!;
  await file.write(500, [Uint8Array.of(1, 2, 3, 4)]);
  const warnings: string[] = [];
  const data = packing(disk, { log: { ...silentLog, warn: (message) => void warnings.push(message) } });
  await data.closeEpoch(1);
  await remove(data, 1, 2, 3);
  assert.ok(segments(disk).includes("00000000"));
  assert.equal(warnings.length, 1);
  assert.equal((await data.inspect(oidOf(1, 0))).kind, "sealed");
});

test("compaction, a copy that a crash left torn: the lower segment's is the blob, the copy is taken away", async () => {
  const disk = new MemoryDisk();
  await filled(disk, 4);
  const [path] = [...disk.files.contents().keys()];
  const whole = disk.files.contents().get(path!)!;
  const copy = (await disk.create(`${path!.slice(0, path!.lastIndexOf("/"))}/seg-00000001`)) as DiskFile;
  await copy.write(0, [whole.subarray(0, 700), new Uint8Array(whole.length - 700)]);
  const data = packing(disk);
  await expectThere(data, oids(4));
  await data.closeEpoch(1);
  await remove(data, 3);
  assert.deepEqual(segments(disk), ["00000000"]);
  for (const each of [data, packing(disk)]) await expectThere(each, oids(3));
});

/** Ends a compaction where a killed process would have. */
const killedAt = (point: string): Partial<FilesystemOptions> => ({
  failpoint: (name) => {
    if (name === point) throw new Error("killed");
  },
});

const NAMES = 64;

/** A power cut that tears blobs, leaves prefixes whole, and keeps the names whose bits are set, in the order of their changes. */
function cut(disk: MemoryDisk, names: number): void {
  let at = 0;
  disk.crash(({ kind, length }) => {
    if (kind === "name") return (names >> (at++ % 6)) & 1;
    return length <= NEEDLE_PREFIX_BYTES ? length : Math.floor(length / 2);
  });
}

for (const then of ["ends", "is killed behind its first removal"]) {
  test(`[OGD14] compaction killed before its copy is durable, the next one ${then}, power cut: nothing is lost`, async () => {
    for (let names = 0; names < NAMES; names += 1) {
      const disk = new MemoryDisk();
      await filled(disk);
      const first = packing(disk, killedAt("segment:compacted-copy-written"));
      await first.closeEpoch(1);
      await remove(first, 0, 1, 2);
      const next = packing(disk, then === "ends" ? {} : killedAt("segment:dropped"));
      await next.list({ epoch: 1, fromSequence: 0, limit: 1 });
      await next.compact(1);
      const last = packing(disk);
      await last.list({ epoch: 1, fromSequence: 0, limit: 1 });
      await last.compact(1);
      cut(disk, names);
      await expectThere(packing(disk), except(5, 0, 1, 2));
    }
  });
}

test("[OGD14] compaction, power cut: an acquisition is not undone, so its numbers are not given out again", async () => {
  const disk = new MemoryDisk();
  await filled(disk);
  const data = packing(disk);
  await data.closeEpoch(1);
  await remove(data, 4);
  await remove(data, 0, 1, 2);
  disk.crash();
  const paths = [...disk.files.contents().keys()].filter((path) => path.includes("/seg-"));
  assert.ok(paths.length > 0 && paths.every((path) => path.includes("/packed-2/")), paths.join());
  await expectThere(packing(disk), [oidOf(1, 3)]);
});

test("compaction, a draft that a crash left: removed by the next compaction", async () => {
  const disk = new MemoryDisk();
  const owner = await filled(disk);
  const next = packing(disk);
  await next.closeEpoch(1);
  await disk.create("pieces/00000001.closed/packed/copy-00000009");
  await remove(next, 0, 1, 2);
  assert.deepEqual(
    [...disk.files.contents().keys()].filter((path) => path.includes("/copy-")),
    [],
  );
  assert.deepEqual(segments(disk), ["00000001", "00010000"]);
  for (const each of [owner, next, packing(disk)]) await expectThere(each, except(5, 0, 1, 2));
});

test("compaction, a reader has the segment open: it reads to the end", async () => {
  const disk = new MemoryDisk();
  const data = await filled(disk);
  const reading = data.read(oidOf(1, 3), 0, LENGTH)[Symbol.asyncIterator]();
  const first = reading.next();
  const compacting = remove(data, 0, 1, 2);
  assert.deepEqual((await first).value, bytesFor(oidOf(1, 3)));
  await compacting;
  assert.equal((await reading.next()).done, true);
});

test("compaction, the folder cannot be acquired any more: nothing is removed", async () => {
  const disk = new MemoryDisk();
  await filled(disk);
  const data = packing({ ...withCalls(disk, async () => undefined), rename: () => Promise.resolve(false) });
  await packing(disk).closeEpoch(1);
  await remove(data, 0, 1, 2, 3);
  assert.deepEqual(segments(disk), ["00000000", "00000001"]);
});

/** Calls `before` before every call to the disk. */
function withCalls(disk: Disk, before: () => Promise<void>): Disk {
  return {
    create: async (path) => (await before(), await disk.create(path)),
    open: async (path) => (await before(), await disk.open(path)),
    list: async (folder) => (await before(), await disk.list(folder)),
    makeFolder: async (folder) => (await before(), await disk.makeFolder(folder)),
    syncFolder: async (folder) => (await before(), await disk.syncFolder(folder)),
    rename: async (from, to) => (await before(), await disk.rename(from, to)),
    remove: async (path) => (await before(), await disk.remove(path)),
    freeBytes: () => disk.freeBytes(),
  };
}

/** What another process does while a compaction stands still before any one of its calls. */
const MEANWHILE: Readonly<Record<string, (other: FilesystemObjectData) => Promise<void>>> = {
  "another one compacts": async (other) => await other.compact(1),
  "another one removes and compacts": async (other) => await remove(other, 3),
  "another one closes the epoch": async (other) => await other.closeEpoch(1),
  "another one closes, removes and compacts": async (other) => {
    await other.closeEpoch(1);
    await remove(other, 3);
  },
};

for (const [name, meanwhile] of Object.entries(MEANWHILE)) {
  for (const closed of [false, true]) {
    test(`[OGD14] compaction of ${closed ? "a closed" : "our open"} epoch, ${name} between any two calls: nothing lost, nothing comes back`, async () => {
      for (let pauseAt = 0, paused = true; paused; pauseAt += 1) {
        const disk = new MemoryDisk();
        const other = packing(disk);
        let calls = Number.NaN;
        paused = false;
        const before = async (): Promise<void> => {
          if (calls === pauseAt && !paused) {
            paused = true;
            await meanwhile(other);
          }
          calls += 1;
        };
        const data = packing(withCalls(disk, before));
        for (const oid of oids(9)) await store(data, oid);
        if (closed) await data.closeEpoch(1);
        await other.list({ epoch: 1, fromSequence: 0, limit: 1 });
        calls = 0;
        for (const sequence of [0, 1, 2, 4, 5, 6]) assert.equal(await data.remove(oidOf(1, sequence)), true);
        await data.compact(1);
        calls = Number.NaN;
        const left = name.includes("removes") && paused ? except(9, 0, 1, 2, 3, 4, 5, 6) : except(9, 0, 1, 2, 4, 5, 6);
        for (const each of [data, other, packing(disk)]) await expectThere(each, left);
        assert.ok(paused || pauseAt > 10, `${pauseAt} calls`);
      }
    });
  }
}

// Folders of closed epochs without blobs go, and the file in their place fences them: in every order of calls, kills and power cuts.
import assert from "node:assert/strict";
import { test } from "node:test";
import { KEEP_UNSYNCED, LOSE_UNSYNCED, MemoryDisk, referenceCrc32c as checksum, type CrashChooser } from "@concord/port-contracts";
import { oidOf, type Oid } from "@concord/ports";
import { ConcordError, type Disk } from "@concord/runtime";
import { decodeClosedBelow, encodeClosedBelow } from "./closed-below.ts";
import { FilesystemObjectData, type FilesystemOptions } from "./filesystem-object-data.ts";
import { EPOCHS_SWEPT_MAX } from "./limits.ts";
import { random } from "./test/drawn.ts";

const DESCRIPTION = { bucket: "b", key: "k", part: undefined, guid: 7n };
const PACKED_BYTES = 100;
const FILE_BYTES = 2_000;

function dataOn(disk: Disk, options: Partial<FilesystemOptions> = {}): FilesystemObjectData {
  return new FilesystemObjectData({ disk, checksum, random, failpoint: () => undefined, packBytesMax: 1_000, ...options });
}

async function store(data: FilesystemObjectData, oid: Oid, lengthBytes: number): Promise<void> {
  const writer = await data.create(oid, DESCRIPTION);
  await writer.write(new Uint8Array(lengthBytes).fill(7));
  await writer.seal();
}

/** An epoch that had a packed blob and one in a file of its own, all removed and compacted. */
async function emptied(data: FilesystemObjectData, epoch: number): Promise<void> {
  await store(data, oidOf(epoch, 1), PACKED_BYTES);
  await store(data, oidOf(epoch, 2), FILE_BYTES);
  await data.closeEpoch(epoch);
  for (const sequence of [1, 2]) await data.remove(oidOf(epoch, sequence));
  await data.compact(epoch);
}

const foldersOn = async (disk: Disk): Promise<string[]> => (await disk.list("pieces")).map(({ name }) => name);
const floorOn = async (disk: Disk): Promise<string[]> => (await disk.list("pieces/closed-below")).map(({ name }) => name);
const hasCode = (code: string) => (thrown: unknown) => thrown instanceof ConcordError && thrown.code === code;

async function isFenced(disk: Disk, epoch: number): Promise<void> {
  await assert.rejects(dataOn(disk).create(oidOf(epoch, 9), DESCRIPTION), hasCode("EPOCH_FENCED"), `create in epoch ${epoch}`);
}

test("closed below: the bytes of version 1", () => {
  const bytes = encodeClosedBelow(0x2a, checksum);
  assert.equal(Buffer.from(bytes).toString("hex"), "434e4542" + "01" + "0000002a" + "894436cd");
  assert.equal(decodeClosedBelow(bytes, checksum), 0x2a);
  for (let at = 0; at < bytes.length; at += 1)
    assert.equal(decodeClosedBelow(bytes.with(at, bytes[at]! ^ 1), checksum), undefined, `byte ${at}`);
  for (let length = 0; length < bytes.length; length += 1) assert.equal(decodeClosedBelow(bytes.subarray(0, length), checksum), undefined);
});

test("release: folders without blobs go, one with a packed blob, one with a file and what is not ours stay; all are fenced", async () => {
  const disk = new MemoryDisk();
  const data = dataOn(disk);
  for (const epoch of [1, 2, 3, 4, 5]) await emptied(data, epoch);
  await store(data, oidOf(6, 1), PACKED_BYTES);
  await store(data, oidOf(7, 1), FILE_BYTES);
  for (const epoch of [6, 7, 8]) await data.closeEpoch(epoch);
  await ((await disk.create("pieces/00000003.closed/notes.txt")) as { close(): Promise<void> }).close();
  await disk.makeFolder("pieces/00000005.closed/lost+found");
  await store(data, oidOf(9, 1), PACKED_BYTES);
  await data.releaseEpochs(9);
  assert.deepEqual(await foldersOn(disk), [
    "00000003.closed",
    "00000005.closed",
    "00000006.closed",
    "00000007.closed",
    "00000009",
    "closed-below",
  ]);
  assert.deepEqual(await floorOn(disk), ["00000009"]);
  for (const epoch of [3, 5])
    assert.ok(
      (await disk.list(`pieces/0000000${epoch}.closed`)).some(({ name }) => name.startsWith("packed")),
      `${epoch}`,
    );
  for (let epoch = 1; epoch < 9; epoch += 1) await isFenced(disk, epoch);
  assert.deepEqual(await dataOn(disk).epochs(), [3, 5, 6, 7, 8, 9]);
  await store(data, oidOf(9, 2), PACKED_BYTES);
  for (const oid of [oidOf(6, 1), oidOf(7, 1)]) assert.equal((await dataOn(disk).inspect(oid)).kind, "sealed");
});

test("release: a process that knew the blobs of a folder that is gone: they are absent, and removed again without an error", async () => {
  const disk = new MemoryDisk();
  const [data, other] = [dataOn(disk), dataOn(disk)];
  await store(data, oidOf(1, 1), PACKED_BYTES);
  await store(data, oidOf(1, 2), FILE_BYTES);
  await store(data, oidOf(1, 3), PACKED_BYTES);
  await data.closeEpoch(1);
  for (const sequence of [1, 2, 3]) assert.equal((await other.inspect(oidOf(1, sequence))).kind, "sealed");
  await other.remove(oidOf(1, 3));
  for (const sequence of [1, 2]) await data.remove(oidOf(1, sequence));
  await other.compact(1);
  await data.compact(1);
  await data.releaseEpochs(2);
  assert.deepEqual(await foldersOn(disk), ["closed-below"]);
  for (const sequence of [1, 2, 3]) {
    await assert.rejects(other.read(oidOf(1, sequence), 0, 1)[Symbol.asyncIterator]().next(), hasCode("CORRUPT_DATA"));
    assert.deepEqual(await other.inspect(oidOf(1, sequence)), { kind: "absent" });
    for (const each of [data, other]) assert.equal(await each.remove(oidOf(1, sequence)), false, `blob ${sequence}`);
  }
  assert.deepEqual(await foldersOn(disk), ["closed-below"]);
});

test("release: a process knows a removal by another one's file, and removes again after the folder is gone: false, no error", async () => {
  const disk = new MemoryDisk();
  const [data, other] = [dataOn(disk), dataOn(disk)];
  await store(data, oidOf(1, 1), PACKED_BYTES);
  await data.closeEpoch(1);
  await data.remove(oidOf(1, 1));
  assert.deepEqual(await other.inspect(oidOf(1, 1)), { kind: "absent" });
  await other.compact(1);
  await data.compact(1);
  await data.releaseEpochs(2);
  assert.deepEqual(await foldersOn(disk), ["closed-below"]);
  assert.equal(await other.remove(oidOf(1, 1)), false);
});

test("release: compactions hide the segments from listings: without the right to them nothing goes", async () => {
  const disk = new MemoryDisk();
  const data = dataOn(disk);
  await store(data, oidOf(1, 1), PACKED_BYTES);
  await data.closeEpoch(1);
  // A copy that gets its name behind the reader of the folder, while its source goes: of the holder of the right only.
  const hiding: Disk["list"] = async (path) =>
    (await disk.list(path)).filter(({ name }) => !path.endsWith("/packed") || !name.startsWith("seg-"));
  await dataOn({ ...callsOf(disk), list: hiding }).releaseEpochs(2);
  assert.equal((await dataOn(disk).inspect(oidOf(1, 1))).kind, "sealed");
});

test("seal: with and without the file of closed epochs: it opens one path that is there, and reads no file", async () => {
  for (const [released, lengthBytes] of [false, true].flatMap((is) => [[is, PACKED_BYTES] as const, [is, FILE_BYTES] as const])) {
    const disk = new MemoryDisk();
    if (released) {
      await dataOn(disk).closeEpoch(1);
      await dataOn(disk).releaseEpochs(2);
    }
    const opened: string[] = [];
    const open: Disk["open"] = (path) => (opened.push(path), disk.open(path));
    const data = dataOn({ ...callsOf(disk), open });
    await store(data, oidOf(2, 1), lengthBytes);
    await store(data, oidOf(2, 2), lengthBytes);
    opened.length = 0;
    const writer = await data.create(oidOf(2, 3), DESCRIPTION);
    await writer.write(new Uint8Array(lengthBytes));
    const before = opened.length;
    await writer.seal();
    assert.equal(opened.length - before, 1, opened.join());
    assert.ok(!opened.at(-1)!.includes("closed"), opened.join());
  }
});

test("release: a bounded number of folders in each pass, oldest first, below and above the limit; then a start opens no closed folder", async () => {
  const disk = new MemoryDisk();
  const data = dataOn(disk);
  const epochs = EPOCHS_SWEPT_MAX + 2;
  for (let epoch = 1; epoch <= epochs; epoch += 1) await data.closeEpoch(epoch);
  await data.releaseEpochs(epochs + 1);
  assert.deepEqual(await dataOn(disk).epochs(), [epochs - 1, epochs]);
  await data.releaseEpochs(epochs + 1);
  assert.deepEqual(await foldersOn(disk), ["closed-below"]);
  const touched: string[] = [];
  const noted = (path: string): string => (touched.push(path), path);
  const start = dataOn({ ...callsOf(disk), open: (path) => disk.open(noted(path)), list: (path) => disk.list(noted(path)) });
  assert.deepEqual(await start.epochs(), [epochs]);
  await start.releaseEpochs(epochs + 1);
  assert.ok(!touched.some((path) => path.endsWith(".closed")), touched.join());
  assert.ok(touched.length <= 8, touched.join());
});

test("release: a number that is lower than before, and one of a slow process: the file never says less", async () => {
  const disk = new MemoryDisk();
  for (const epoch of [1, 2, 3]) await dataOn(disk).closeEpoch(epoch);
  let paused = false;
  const slow = dataOn({
    ...callsOf(disk),
    rename: async (from, to) => {
      if (to.includes("closed-below")) {
        paused = true;
        await dataOn(disk).releaseEpochs(4);
        // The draft of a process that stands still may be removed; here it is not.
        await ((await disk.create(from)) as { close(): Promise<void> }).close();
      }
      return await disk.rename(from, to);
    },
  });
  await slow.releaseEpochs(2).catch(() => undefined);
  assert.ok(paused);
  for (const epoch of [1, 2, 3]) await isFenced(disk, epoch);
  assert.deepEqual(await dataOn(disk).epochs(), [3]);
  await dataOn(disk).releaseEpochs(2);
  for (const epoch of [1, 2, 3]) await isFenced(disk, epoch);
});

test("release: of two processes at one time one ends as it begins to write: the other's number is whole, and no process is kept from starting", async () => {
  const disk = new MemoryDisk();
  for (const epoch of [1, 2, 3]) await dataOn(disk).closeEpoch(epoch);
  let drafts = 0;
  const slow = dataOn({
    ...callsOf(disk),
    rename: async (from, to) => {
      if (to.includes("closed-below")) {
        const killed = dataOn({
          ...callsOf(disk),
          create: async (path) => {
            const file = await disk.create(path);
            if (!path.includes("closed-below")) return file;
            drafts += 1;
            throw new Error("killed");
          },
        });
        await killed.releaseEpochs(4).catch(() => undefined);
      }
      return await disk.rename(from, to);
    },
  });
  await slow.releaseEpochs(2).catch(() => undefined);
  assert.equal(drafts, 1);
  assert.deepEqual((await dataOn(disk).epochs()).slice(-1), [3]);
  await dataOn(disk).releaseEpochs(4);
  assert.deepEqual(await floorOn(disk), ["00000004"]);
  for (const epoch of [1, 2, 3]) await isFenced(disk, epoch);
});

test("closed below: damaged in any byte, or of another number: refused with what to do; blobs can be read, nothing is created", async () => {
  for (const damage of ["flip", "short", "other"] as const) {
    const disk = new MemoryDisk();
    const data = dataOn(disk);
    await data.closeEpoch(1);
    await store(data, oidOf(2, 1), PACKED_BYTES);
    await data.releaseEpochs(2);
    const path = "pieces/closed-below/00000002";
    const file = (await disk.open(path))!;
    if (damage === "flip") await file.write(8, [Uint8Array.of(3)]);
    if (damage === "short") await file.truncate(5);
    if (damage === "other") await file.write(0, [encodeClosedBelow(1, checksum)]);
    const told = (thrown: unknown): boolean =>
      hasCode("CORRUPT_DATA")(thrown) && /damaged: restore it from a backup; or stop/.test(String(thrown));
    const next = dataOn(disk);
    await assert.rejects(next.epochs(), told);
    await assert.rejects(next.create(oidOf(1, 1), DESCRIPTION), told);
    await assert.rejects(next.releaseEpochs(2), told);
    assert.equal((await next.inspect(oidOf(2, 1))).kind, "sealed");
    await disk.remove(path);
    await dataOn(disk).releaseEpochs(2);
  }
});

test("release: a folder that is open below the number: it is closed, then it goes; a newer one that is open stays", async () => {
  const disk = new MemoryDisk();
  const data = dataOn(disk);
  await store(data, oidOf(1, 1), FILE_BYTES);
  await data.remove(oidOf(1, 1));
  await store(data, oidOf(2, 1), FILE_BYTES);
  for (let pass = 0; pass < 2; pass += 1) await dataOn(disk).releaseEpochs(2);
  assert.deepEqual(await foldersOn(disk), ["00000002", "closed-below"]);
  await isFenced(disk, 1);
  await store(data, oidOf(2, 2), FILE_BYTES);
});

function callsOf(disk: MemoryDisk): Disk {
  const { create, open, list, makeFolder, syncFolder, rename, remove, freeBytes } = disk;
  return { create, open, list, makeFolder, syncFolder, rename, remove, freeBytes };
}

/** Runs `before` ahead of every call to the disk, also those to its files. */
function steppedBy(disk: MemoryDisk, before: () => Promise<void>): Disk {
  const step = async <Answer>(act: () => Promise<Answer>): Promise<Answer> => (await before(), await act());
  return {
    create: (path) =>
      step(async () => {
        const file = await disk.create(path);
        if (file === "exists") return file;
        const [write, sync] = [file.write.bind(file), file.sync.bind(file)];
        file.write = (offset, parts) => step(() => write(offset, parts));
        file.sync = () => step(sync);
        return file;
      }),
    open: (path) => step(() => disk.open(path)),
    list: (folder) => step(() => disk.list(folder)),
    makeFolder: (folder) => step(() => disk.makeFolder(folder)),
    syncFolder: (folder) => step(() => disk.syncFolder(folder)),
    rename: (from, to) => step(() => disk.rename(from, to)),
    remove: (path) => step(() => disk.remove(path)),
    freeBytes: disk.freeBytes,
  };
}

/** As a gateway that was paused there for as long as it takes others to recover its epoch, collect its blobs and remove its folder. */
for (const lengthBytes of [PACKED_BYTES, FILE_BYTES])
  test(`[OGD3] release between any two calls of a zombie: ${lengthBytes} bytes: it seals before or not at all, and makes no folder`, async () => {
    for (let pauseAt = 0; ; pauseAt += 1) {
      const disk = new MemoryDisk();
      let calls = 0;
      let released = false;
      const before = async (): Promise<void> => {
        calls += 1;
        if (calls - 1 !== pauseAt || released) return;
        released = true;
        const adopter = dataOn(disk);
        await adopter.closeEpoch(3);
        for (const oid of await adopter.list({ epoch: 3, fromSequence: 0, limit: 10 })) await adopter.remove(oid);
        await adopter.compact(3);
        await adopter.releaseEpochs(4);
        assert.deepEqual(await foldersOn(disk), ["closed-below"], `pause ${pauseAt}`);
      };
      const zombie = dataOn(steppedBy(disk, before));
      const outcomes: string[] = [];
      for (const sequence of [1, 2, 3]) {
        const wasReleased = released;
        const outcome = await store(zombie, oidOf(3, sequence), lengthBytes).then(
          () => "sealed",
          (thrown: unknown) => (thrown as ConcordError).code,
        );
        outcomes.push(outcome);
        // The one in which it was paused may have been answered before: its row is fenced then (OGD2).
        if (wasReleased) assert.equal(outcome, "EPOCH_FENCED", `pause ${pauseAt}: blob ${sequence}`);
        assert.match(outcome, /^(sealed|EPOCH_FENCED)$/, `pause ${pauseAt}`);
      }
      if (!released) {
        assert.ok(pauseAt > 10, `${pauseAt} calls`);
        return;
      }
      assert.deepEqual(await dataOn(disk).list({ epoch: 3, fromSequence: 0, limit: 10 }), [], `pause ${pauseAt}: ${outcomes.join()}`);
      await dataOn(disk).releaseEpochs(4);
      assert.deepEqual(await foldersOn(disk), ["closed-below"], `pause ${pauseAt}`);
    }
  });

const OTHERS: Record<string, (other: FilesystemObjectData) => Promise<unknown>> = {
  "releases, too": (other) => other.releaseEpochs(3),
  "releases more": (other) => other.releaseEpochs(4),
  "reads and removes": async (other) => {
    assert.equal((await other.inspect(oidOf(1, 1))).kind, "absent");
    for (const sequence of [1, 2]) assert.equal(await other.remove(oidOf(1, sequence)), false);
  },
  "closes it again": (other) => other.closeEpoch(1),
};

for (const [name, act] of Object.entries(OTHERS))
  test(`release: before any of its calls another process ${name}: neither fails or has to end; blobs stay, folders go`, async () => {
    for (let at = 0; ; at += 1) {
      const disk = new MemoryDisk();
      const first = dataOn(disk);
      for (const epoch of [1, 2, 3]) await emptied(first, epoch);
      await store(first, oidOf(4, 1), PACKED_BYTES);
      await first.closeEpoch(4);
      const failed: unknown[] = [];
      const onFailed = (cause: ConcordError): void => void failed.push(cause);
      const other = dataOn(disk, { onFailed });
      assert.equal((await other.inspect(oidOf(1, 1))).kind, "absent");
      let calls = 0;
      const before = async (): Promise<void> => {
        calls += 1;
        if (calls - 1 === at) await act(other);
      };
      await dataOn(steppedBy(disk, before), { onFailed })
        .releaseEpochs(4)
        .catch((thrown: unknown) => {
          // Its draft was removed: the next pass writes it.
          assert.match(String(thrown), /removed by another process/, `call ${at}`);
        });
      for (let pass = 0; pass < 2; pass += 1) await dataOn(disk).releaseEpochs(5);
      assert.deepEqual(await foldersOn(disk), ["00000004.closed", "closed-below"], `call ${at}`);
      assert.equal((await dataOn(disk).inspect(oidOf(4, 1))).kind, "sealed");
      assert.deepEqual(failed, [], `call ${at}`);
      for (const epoch of [1, 2, 3, 4]) await isFenced(disk, epoch);
      if (calls <= at) {
        assert.ok(at > 20, `${at} calls`);
        return;
      }
    }
  });

test("release: before any call of a process that looks and removes for the first time: absent, and it has not to end", async () => {
  for (const sequence of [1, 2]) {
    for (let at = 0; ; at += 1) {
      const disk = new MemoryDisk();
      await emptied(dataOn(disk), 1);
      let calls = 0;
      const before = async (): Promise<void> => {
        calls += 1;
        if (calls - 1 === at) await dataOn(disk).releaseEpochs(2);
      };
      const failed: unknown[] = [];
      const reader = dataOn(steppedBy(disk, before), { onFailed: (cause) => void failed.push(cause) });
      assert.equal(await reader.remove(oidOf(1, sequence)), false, `call ${at}`);
      assert.deepEqual(await reader.inspect(oidOf(1, sequence)), { kind: "absent" }, `call ${at}`);
      assert.deepEqual(failed, [], `call ${at}`);
      if (calls <= at) break;
    }
  }
});

/** The first changes are lost, or the last ones, or each second. */
const CUTS: Record<string, () => CrashChooser> = {
  "all unsynced lost": () => LOSE_UNSYNCED,
  "all unsynced kept": () => KEEP_UNSYNCED,
  "each second unsynced change lost": () => alternating(0),
  "each other second unsynced change lost": () => alternating(1),
};

function alternating(first: number): CrashChooser {
  let count = first;
  return ({ length }) => ((count += 1) % 2 === 0 ? length : 0);
}

for (const [name, chooser] of Object.entries(CUTS))
  test(`release: power cut before any of its calls, ${name}: every epoch is fenced, no blob comes back, no number is free`, async () => {
    for (let at = 0; ; at += 1) {
      const disk = new MemoryDisk();
      const first = dataOn(disk);
      for (const epoch of [1, 2]) await emptied(first, epoch);
      await store(first, oidOf(3, 1), PACKED_BYTES);
      await first.closeEpoch(3);
      let calls = 0;
      const before = async (): Promise<void> => {
        calls += 1;
        if (calls > at) throw new ConcordError("STORE_FAILED", "killed");
      };
      await dataOn(steppedBy(disk, before))
        .releaseEpochs(4)
        .catch(() => undefined);
      disk.crash(chooser());
      for (const epoch of [1, 2, 3]) {
        await isFenced(disk, epoch);
        assert.deepEqual(await dataOn(disk).list({ epoch, fromSequence: 0, limit: 9 }), epoch === 3 ? [oidOf(3, 1)] : [], `call ${at}`);
      }
      assert.equal((await dataOn(disk).epochs()).at(-1), 3);
      for (let pass = 0; pass < 2; pass += 1) await dataOn(disk).releaseEpochs(4);
      assert.deepEqual(await foldersOn(disk), ["00000003.closed", "closed-below"], `call ${at}`);
      if (calls <= at) return;
    }
  });

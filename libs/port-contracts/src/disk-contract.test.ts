// The suite itself: the reference keeps every promise, each seeded fault is found.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Disk, DiskEntry, DiskFile } from "@concord/runtime";
import { MemoryDisk } from "./memory-disk.ts";
import { KEEP_UNSYNCED } from "./memory-files.ts";
import { failedCases } from "./contract.ts";
import { contentOf, crashableDiskContract, DISK_CASES, DISK_CRASH_CASES, makeFile, type CrashableDiskSubject } from "./disk-contract.ts";

function subjectOf(make: (memory: MemoryDisk) => Disk): () => Promise<CrashableDiskSubject> {
  return async () => {
    const memory = new MemoryDisk();
    return {
      disk: make(memory),
      crash: async () => {
        memory.crash();
        return make(memory);
      },
      failNextSync: () => memory.files.failNextSync(),
      leaveRoom: (bytes) => (memory.files.capacityBytes = memory.files.usedBytes + bytes),
    };
  };
}

/** A correct file to inherit the other methods of a fault from. */
class FileDelegate implements DiskFile {
  readonly file: DiskFile;
  readonly memory: MemoryDisk;
  constructor(file: DiskFile, memory: MemoryDisk) {
    this.file = file;
    this.memory = memory;
  }
  get size(): number {
    return this.file.size;
  }
  write(offset: number, parts: readonly Uint8Array[]): Promise<void> {
    return this.file.write(offset, parts);
  }
  async writeSynced(offset: number, parts: readonly Uint8Array[]): Promise<void> {
    await this.write(offset, parts);
    await this.sync();
  }
  read(offset: number, length: number): Promise<Uint8Array> {
    return this.file.read(offset, length);
  }
  sync(): Promise<void> {
    return this.file.sync();
  }
  truncate(size: number): Promise<void> {
    return this.file.truncate(size);
  }
  close(): Promise<void> {
    return this.file.close();
  }
}

class DiskDelegate implements Disk {
  readonly memory: MemoryDisk;
  readonly wrap: (file: DiskFile) => DiskFile;
  constructor(memory: MemoryDisk, wrap: (file: DiskFile) => DiskFile = (file) => file) {
    this.memory = memory;
    this.wrap = wrap;
  }
  async create(path: string): Promise<DiskFile | "exists"> {
    const file = await this.memory.create(path);
    return file === "exists" ? file : this.wrap(file);
  }
  async open(path: string): Promise<DiskFile | undefined> {
    const file = await this.memory.open(path);
    return file === undefined ? undefined : this.wrap(file);
  }
  list(folder: string): Promise<readonly DiskEntry[]> {
    return this.memory.list(folder);
  }
  makeFolder(folder: string): Promise<void> {
    return this.memory.makeFolder(folder);
  }
  syncFolder(folder: string): Promise<void> {
    return this.memory.syncFolder(folder);
  }
  rename(from: string, to: string): Promise<boolean> {
    return this.memory.rename(from, to);
  }
  remove(path: string): Promise<boolean> {
    return this.memory.remove(path);
  }
  freeBytes(): Promise<number> {
    return this.memory.freeBytes();
  }
}

class NeverSyncs extends FileDelegate {
  override async sync(): Promise<void> {}
}
class NeverSyncsWrites extends FileDelegate {
  override async writeSynced(offset: number, parts: readonly Uint8Array[]): Promise<void> {
    await this.write(offset, parts);
  }
}
class SwallowsFailedSyncs extends FileDelegate {
  override sync(): Promise<void> {
    return this.file.sync().catch(() => undefined);
  }
}
class SyncsNamesToo extends FileDelegate {
  override async sync(): Promise<void> {
    await this.file.sync();
    await this.memory.syncFolder("");
  }
}
/** A later sync writes everything again: better than disks are, so code above would be tested against a lie. */
class SecondSyncRepairs extends FileDelegate {
  override async sync(): Promise<void> {
    await this.file.write(0, [await this.file.read(0, this.file.size)]);
    await this.file.sync();
  }
}
class WritesFirstPartOnly extends FileDelegate {
  override write(offset: number, parts: readonly Uint8Array[]): Promise<void> {
    return this.file.write(offset, parts.slice(0, 1));
  }
}
class StopsAt1024Parts extends FileDelegate {
  override write(offset: number, parts: readonly Uint8Array[]): Promise<void> {
    return this.file.write(offset, parts.slice(0, 1024));
  }
}
class AppendsAlways extends FileDelegate {
  override write(_: number, parts: readonly Uint8Array[]): Promise<void> {
    return this.file.write(this.file.size, parts);
  }
}
class PadsReads extends FileDelegate {
  override async read(offset: number, length: number): Promise<Uint8Array> {
    const padded = new Uint8Array(length);
    padded.set(await this.file.read(offset, length));
    return padded;
  }
}
class StaleSize extends FileDelegate {
  readonly #size: number;
  constructor(file: DiskFile, memory: MemoryDisk) {
    super(file, memory);
    this.#size = file.size;
  }
  override get size(): number {
    return this.#size;
  }
}
class FullIsAFailure extends FileDelegate {
  override async write(offset: number, parts: readonly Uint8Array[]): Promise<void> {
    await this.file.write(offset, parts).catch(() => Promise.reject(new Error("EIO")));
  }
}
const FILE_FAULTS = [
  NeverSyncs,
  NeverSyncsWrites,
  SwallowsFailedSyncs,
  SyncsNamesToo,
  SecondSyncRepairs,
  WritesFirstPartOnly,
  StopsAt1024Parts,
  AppendsAlways,
  PadsReads,
  StaleSize,
  FullIsAFailure,
];

class CreateReplaces extends DiskDelegate {
  override async create(path: string): Promise<DiskFile | "exists"> {
    await this.memory.remove(path).catch(() => false);
    return await this.memory.create(path);
  }
}
class CreateChecksFirst extends DiskDelegate {
  override async create(path: string): Promise<DiskFile | "exists"> {
    if ((await this.memory.open(path)) !== undefined) return "exists";
    await this.memory.remove(path).catch(() => false);
    return await this.memory.create(path);
  }
}
class ListsUnsorted extends DiskDelegate {
  override async list(folder: string): Promise<readonly DiskEntry[]> {
    return (await this.memory.list(folder)).toReversed();
  }
}
class RenameRefusesToReplace extends DiskDelegate {
  override async rename(from: string, to: string): Promise<boolean> {
    return (await this.memory.open(to)) === undefined && (await this.memory.rename(from, to));
  }
}
class RenameByCopy extends DiskDelegate {
  override async rename(from: string, to: string): Promise<boolean> {
    const content = await contentOf(this.memory, from);
    if (content === undefined) return false;
    await this.memory.remove(to);
    await makeFile(this.memory, to, content);
    return await this.memory.remove(from);
  }
}
class FoldersNeverSynced extends DiskDelegate {
  override async syncFolder(): Promise<void> {}
}
class EscapesTheRoot extends DiskDelegate {
  override create(path: string): Promise<DiskFile | "exists"> {
    return this.memory.create(path.replaceAll(/\.+\//g, "x"));
  }
}
class RemovesFullFolders extends DiskDelegate {
  override async remove(path: string): Promise<boolean> {
    for (const { name } of await this.memory.list(path)) await this.remove(`${path}/${name}`);
    return await this.memory.remove(path);
  }
}
const DISK_FAULTS = [
  CreateReplaces,
  CreateChecksFirst,
  ListsUnsorted,
  RenameRefusesToReplace,
  RenameByCopy,
  FoldersNeverSynced,
  EscapesTheRoot,
  RemovesFullFolders,
];

crashableDiskContract(
  test,
  subjectOf((memory) => memory),
);

async function isFound(make: (memory: MemoryDisk) => Disk): Promise<boolean> {
  const failed = [...(await failedCases(DISK_CASES, subjectOf(make))), ...(await failedCases(DISK_CRASH_CASES, subjectOf(make)))];
  return failed.length > 0;
}

for (const Fault of FILE_FAULTS) {
  test(`Disk contract: seeded fault ${Fault.name}: found`, async () => {
    assert.ok(await isFound((memory) => new DiskDelegate(memory, (file) => new Fault(file, memory))));
  });
}

for (const Fault of DISK_FAULTS) {
  test(`Disk contract: seeded fault ${Fault.name}: found`, async () => {
    assert.ok(await isFound((memory) => new Fault(memory)));
  });
}

test("Disk contract: the delegates the faults inherit from: no fault", async () => {
  assert.ok(!(await isFound((memory) => new DiskDelegate(memory, (file) => new FileDelegate(file, memory)))));
});

test("memory disk: unsynced bytes: kept, torn at any byte, or a later page without an earlier one, as the chooser says", async () => {
  const pages = Uint8Array.from({ length: 3 * 4096 }, (_, at) => 1 + (at >> 12));
  const after = async (kept: readonly number[]): Promise<Uint8Array | undefined> => {
    const disk = new MemoryDisk();
    const file = await makeFile(disk, "a");
    await disk.syncFolder("");
    await file.write(0, [pages]);
    const left = [...kept];
    disk.crash(({ kind, length }) => (kind === "bytes" ? (left.shift() ?? 0) : length));
    return await contentOf(disk, "a");
  };
  assert.deepEqual(await after([4096, 4096, 4096]), pages);
  assert.deepEqual(await after([4096, 10, 0]), pages.slice(0, 4106));
  assert.deepEqual(
    await after([0, 0, 1]),
    Uint8Array.from({ length: 8193 }, (_, at) => (at === 8192 ? 3 : 0)),
  );
});

test("memory disk: unsynced names: each survives by itself", async () => {
  const disk = new MemoryDisk();
  for (const name of ["a", "b", "c"]) await makeFile(disk, name);
  let seen = 0;
  disk.crash(({ kind }) => (kind === "name" && (seen += 1) !== 2 ? 1 : 0));
  assert.deepEqual(
    (await disk.list("")).map(({ name }) => name),
    ["a", "c"],
  );
  disk.crash(KEEP_UNSYNCED);
  assert.deepEqual([...disk.files.contents().keys()], ["a", "c"]);
});

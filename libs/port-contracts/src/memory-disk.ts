import { assert, ConcordError, type Disk, type DiskFile, diskSegments } from "@concord/runtime";
import { LOSE_UNSYNCED, MemoryFiles, type CrashChooser, type MemoryFile } from "./memory-files.ts";

/** A call on its way to a disk: what it costs and, for a write, what a process killed meanwhile leaves. */
export interface DiskCall {
  readonly kind: "read" | "write" | "sync" | "names";
  /** What it is about, with the operation: for traces. */
  readonly text: string;
  readonly bytes: number;
  /** What a write brings. */
  readonly parts?: readonly Uint8Array[];
  /** Does the call's first `bytes` only. */
  readonly partly?: (bytes: number) => void;
}

/** Brings a call to the disk, now or later: where a simulator puts latency and the caller's death. */
export type DiskRun = <Answer>(call: DiskCall, act: () => Answer) => Promise<Answer>;

/** A Disk over files in memory; several may stand over the same files, as processes on one machine do. */
export function diskOver(files: MemoryFiles, run: DiskRun): Disk {
  const names = <Answer>(text: string, act: () => Answer): Promise<Answer> => run({ kind: "names", text, bytes: 0 }, act);
  const handle = (file: MemoryFile, path: string): DiskFile => new MemoryDiskFile(files, run, file, path);
  return {
    create: async (path) => {
      diskSegments(path);
      const made = await names(`create ${path}`, () => files.create(path));
      return made === "exists" ? made : handle(made, path);
    },
    open: async (path) => {
      diskSegments(path);
      const found = await names(`open ${path}`, () => files.find(path));
      return found === undefined ? undefined : handle(found, path);
    },
    list: async (folder) => {
      diskSegments(folder);
      return await names(`list ${folder}`, () => files.list(folder));
    },
    makeFolder: async (folder) => {
      diskSegments(folder);
      await run({ kind: "sync", text: `make ${folder}`, bytes: 0 }, () => files.makeFolder(folder));
    },
    syncFolder: async (folder) => await run({ kind: "sync", text: `sync ${folder}/`, bytes: 0 }, () => files.syncFolder(folder)),
    rename: async (from, to) => {
      diskSegments(from);
      diskSegments(to);
      return await names(`rename ${from} to ${to}`, () => files.rename(from, to));
    },
    remove: async (path) => {
      diskSegments(path);
      return await names(`remove ${path}`, () => files.remove(path));
    },
    // Of no file, so it takes no time.
    freeBytes: () => Promise.resolve(files.capacityBytes - files.usedBytes),
  };
}

class MemoryDiskFile implements DiskFile {
  readonly #files: MemoryFiles;
  readonly #run: DiskRun;
  readonly #file: MemoryFile;
  readonly #path: string;
  readonly #generation: number;
  #isOpen = true;
  #size: number;

  constructor(files: MemoryFiles, run: DiskRun, file: MemoryFile, path: string) {
    this.#files = files;
    this.#run = run;
    this.#file = file;
    this.#path = path;
    this.#generation = files.generation;
    this.#size = file.current.length;
  }

  get size(): number {
    return this.#size;
  }

  async write(offset: number, parts: readonly Uint8Array[]): Promise<void> {
    this.#check(offset);
    const bytes = parts.reduce((sum, part) => sum + part.length, 0);
    const partly = (kept: number): void => this.#files.write(this.#file, offset, firstBytes(parts, kept));
    const call: DiskCall = { kind: "write", text: `write ${this.#path} at ${offset}`, bytes, parts, partly };
    await this.#run(call, () => this.#act(() => this.#files.write(this.#file, offset, parts)));
    this.#size = Math.max(this.#size, offset + bytes);
  }

  /** A power cut between the two leaves what a torn call leaves. */
  async writeSynced(offset: number, parts: readonly Uint8Array[]): Promise<void> {
    await this.write(offset, parts);
    await this.sync();
  }

  async read(offset: number, length: number): Promise<Uint8Array> {
    this.#check(offset);
    const call: DiskCall = { kind: "read", text: `read ${this.#path} at ${offset}`, bytes: length };
    return await this.#run(call, () => this.#act(() => this.#files.read(this.#file, offset, length)));
  }

  async sync(): Promise<void> {
    this.#check(0);
    const call: DiskCall = { kind: "sync", text: `sync ${this.#path}`, bytes: 0 };
    await this.#run(call, () => this.#act(() => this.#files.sync(this.#file)));
  }

  async truncate(size: number): Promise<void> {
    this.#check(size);
    const call: DiskCall = { kind: "write", text: `truncate ${this.#path} to ${size}`, bytes: 0 };
    await this.#run(call, () => this.#act(() => this.#files.truncate(this.#file, size)));
    this.#size = size;
  }

  async close(): Promise<void> {
    this.#isOpen = false;
  }

  #check(offset: number): void {
    assert(this.#isOpen, "the file is open");
    assert(Number.isSafeInteger(offset) && offset >= 0, `offset ${offset} is a place in a file`);
  }

  #act<Answer>(act: () => Answer): Answer {
    if (this.#files.generation !== this.#generation)
      throw new ConcordError("STORE_FAILED", "the machine went down", { applied: "unknown" });
    return act();
  }
}

function firstBytes(parts: readonly Uint8Array[], count: number): Uint8Array[] {
  let left = count;
  const kept: Uint8Array[] = [];
  for (const part of parts) {
    kept.push(part.subarray(0, left));
    left -= Math.min(left, part.length);
  }
  return kept;
}

/** The reference of the Disk interface: answers in the next turn of the promise queue. A test crashes it, fails its syncs, fills it. */
export class MemoryDisk implements Disk {
  readonly files = new MemoryFiles();
  readonly #disk = diskOver(this.files, async (_, act) => {
    await Promise.resolve();
    return act();
  });
  readonly create = this.#disk.create;
  readonly open = this.#disk.open;
  readonly list = this.#disk.list;
  readonly makeFolder = this.#disk.makeFolder;
  readonly syncFolder = this.#disk.syncFolder;
  readonly rename = this.#disk.rename;
  readonly remove = this.#disk.remove;
  readonly freeBytes = this.#disk.freeBytes;

  /** A power cut: files opened before it are dead; the disk itself goes on with what survived. */
  crash(chooser: CrashChooser = LOSE_UNSYNCED): void {
    this.files.crash(chooser);
  }
}

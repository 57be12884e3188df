import { constants } from "node:fs";
import { access, mkdir, open, readdir, rename, rmdir, statfs, unlink, type FileHandle } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { diskSegments } from "@concord/runtime";
import {
  assert,
  ConcordError,
  DESCRIPTOR_WRITE_WAIT_MS,
  isOutOfDescriptors,
  type DescriptorReserve,
  type Disk,
  type DiskEntry,
  type DiskFile,
} from "@concord/runtime";
import { nodeDescriptors } from "./descriptors.ts";

/** Error codes of a system without room, quotas included. */
const FULL_CODES: ReadonlySet<string> = new Set(["ENOSPC", "EDQUOT"]);
/** NTFS journals names by itself, and Windows opens no folder for a sync. */
const SYNCS_FOLDERS = process.platform !== "win32";

/** Linux opens the same file again by its number, whatever its name is now; elsewhere a write and a sync are two calls. */
const SYNCED_WRITES = process.platform === "linux" && constants.O_DSYNC !== undefined;

/**
 * The files below a folder of the machine. The folder itself is made by `makeFolder("")`. Opened for reading, on a file system that takes
 * no writes, every change fails. What finds no free descriptor waits for one of `descriptors`; OVERLOADED when they got none.
 */
export function nodeDisk(root: string, use: "writing" | "reading" = "writing", descriptors: DescriptorReserve = nodeDescriptors()): Disk {
  const at = (path: string): string => join(resolve(root), ...diskSegments(path));
  const flags = use === "writing" ? "r+" : "r";
  const forWriting = <Answer>(act: () => Promise<Answer>): Promise<Answer> => descriptors.within(act, DESCRIPTOR_WRITE_WAIT_MS);
  return {
    create: async (path) => await forWriting(() => openFile(at(path), descriptors, "wx+", "EEXIST", "exists")),
    open: async (path) => await descriptors.within(() => openFile(at(path), descriptors, flags, "ENOENT", undefined)).catch(absentIfFolder),
    list: async (folder) => await descriptors.within(() => listFolder(at(folder))),
    makeFolder: async (folder) => {
      const last = await makeFolder(resolve(root), at(folder));
      await forWriting(() => syncFoldersBetween(at(folder), last));
    },
    syncFolder: async (folder) => await forWriting(() => syncFolder(at(folder))),
    rename: async (from, to) => {
      const [old, next] = [at(from), at(to)];
      if (await attempt(`rename ${old}`, rename(old, next), "ENOENT")) return true;
      // The system answers the same when the new name's folder is absent.
      const hasFolder = await access(dirname(next)).then(
        () => true,
        () => false,
      );
      if (!hasFolder) throw failure(`rename ${old}`, new Error(`there is no folder ${dirname(next)}`));
      return false;
    },
    remove: async (path) => {
      const full = at(path);
      return await attempt(`remove ${full}`, removeOne(full), "ENOENT");
    },
    freeBytes: async () => await freeBytes(resolve(root)),
  };
}

async function openFile<Otherwise>(
  path: string,
  descriptors: DescriptorReserve,
  flags: string,
  code: string,
  otherwise: Otherwise,
): Promise<DiskFile | Otherwise> {
  let handle: FileHandle | undefined;
  try {
    handle = await open(path, flags);
    return new NodeDiskFile(path, handle, descriptors, (await handle.stat()).size);
  } catch (thrown) {
    await handle?.close();
    if (codeOf(thrown) === code) return otherwise;
    throw notOpened(`open ${path}`, thrown);
  }
}

/** What is a folder is no file. */
function absentIfFolder(thrown: unknown): undefined {
  const code = thrown instanceof ConcordError ? codeOf(thrown.cause) : "";
  if (code === "EISDIR" || code === "ENOTDIR") return undefined;
  throw thrown;
}

async function listFolder(path: string): Promise<readonly DiskEntry[]> {
  try {
    const entries = await readdir(path, { withFileTypes: true });
    return entries
      .map((entry): DiskEntry => ({ name: entry.name, kind: entry.isDirectory() ? "folder" : "file" }))
      .sort((left, right) => (left.name < right.name ? -1 : 1));
  } catch (thrown) {
    if (codeOf(thrown) === "ENOENT") return [];
    throw notOpened(`list ${path}`, thrown);
  }
}

/** Returns the last folder on the way up whose names have to be synced. */
async function makeFolder(root: string, path: string): Promise<string> {
  try {
    const made = await mkdir(path, { recursive: true });
    return made !== undefined && root.startsWith(made) ? dirname(made) : root;
  } catch (thrown) {
    throw failure(`make ${path}`, thrown);
  }
}

/** Every name on the way is synced, also of folders that were there: an earlier call may have made them and not come that far. */
async function syncFoldersBetween(path: string, last: string): Promise<void> {
  for (let folder = path; folder !== last;) {
    folder = dirname(folder);
    await syncFolder(folder);
  }
}

async function syncFolder(path: string): Promise<void> {
  if (!SYNCS_FOLDERS) return;
  let handle: FileHandle | undefined;
  try {
    handle = await open(path, "r");
    await handle.sync();
  } catch (thrown) {
    throw notOpened(`sync folder ${path}`, thrown);
  } finally {
    await handle?.close();
  }
}

/** What a process without privileges may still use. */
async function freeBytes(root: string): Promise<number> {
  try {
    const { bavail, bsize } = await statfs(root);
    return bavail * bsize;
  } catch (thrown) {
    throw failure(`measure ${root}`, thrown);
  }
}

async function removeOne(path: string): Promise<void> {
  try {
    await unlink(path);
  } catch (thrown) {
    const code = codeOf(thrown);
    if (code !== "EISDIR" && code !== "EPERM") throw thrown;
    await rmdir(path);
  }
}

/** False when it failed with `absent`. */
async function attempt(what: string, action: Promise<void>, absent: string): Promise<boolean> {
  try {
    await action;
    return true;
  } catch (thrown) {
    if (codeOf(thrown) === absent) return false;
    throw failure(what, thrown);
  }
}

class NodeDiskFile implements DiskFile {
  readonly #path: string;
  readonly #handle: FileHandle;
  readonly #descriptors: DescriptorReserve;
  /** The same file, where a write is on disk when it resolves; opened by the first one. */
  #synced: Promise<FileHandle> | undefined;
  #size: number;
  #isOpen = true;

  constructor(path: string, handle: FileHandle, descriptors: DescriptorReserve, size: number) {
    this.#path = path;
    this.#handle = handle;
    this.#descriptors = descriptors;
    this.#size = size;
  }

  get size(): number {
    return this.#size;
  }

  async write(offset: number, parts: readonly Uint8Array[]): Promise<void> {
    this.#check(offset);
    await this.#writeWith(this.#handle, offset, parts);
  }

  async writeSynced(offset: number, parts: readonly Uint8Array[]): Promise<void> {
    this.#check(offset);
    if (SYNCED_WRITES) return await this.#writeWith(await this.#openSynced(), offset, parts);
    await this.#writeWith(this.#handle, offset, parts);
    await this.sync();
  }

  async #writeWith(handle: FileHandle, offset: number, parts: readonly Uint8Array[]): Promise<void> {
    let [left, at] = [parts.filter((part) => part.length > 0), offset];
    try {
      while (left.length > 0) {
        const { bytesWritten } = await handle.writev(left, at);
        if (bytesWritten === 0) throw new Error("nothing was written");
        at += bytesWritten;
        this.#size = Math.max(this.#size, at);
        left = partsBehind(left, bytesWritten);
      }
    } catch (thrown) {
      throw failure(`write ${this.#path}`, thrown);
    }
  }

  async read(offset: number, length: number, into?: Uint8Array): Promise<Uint8Array> {
    this.#check(offset);
    assert(into === undefined || into.length >= length, "what is read fits into the memory that is given for it");
    const bytes = into === undefined ? new Uint8Array(length) : into.subarray(0, length);
    let filled = 0;
    try {
      while (filled < length) {
        const { bytesRead } = await this.#handle.read(bytes, filled, length - filled, offset + filled);
        if (bytesRead === 0) break;
        filled += bytesRead;
      }
    } catch (thrown) {
      throw failure(`read ${this.#path}`, thrown);
    }
    return filled === length ? bytes : bytes.subarray(0, filled);
  }

  async sync(): Promise<void> {
    this.#check(0);
    await this.#handle.datasync().catch((thrown: unknown) => Promise.reject(failure(`sync ${this.#path}`, thrown)));
  }

  async truncate(size: number): Promise<void> {
    this.#check(size);
    await this.#handle.truncate(size).catch((thrown: unknown) => Promise.reject(failure(`truncate ${this.#path}`, thrown)));
    this.#size = size;
  }

  async close(): Promise<void> {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    const synced = await this.#synced?.catch(() => undefined);
    await Promise.all([this.#handle.close(), synced?.close()]);
  }

  async #openSynced(): Promise<FileHandle> {
    const again = (): Promise<FileHandle> => open(`/proc/self/fd/${this.#handle.fd}`, constants.O_WRONLY | constants.O_DSYNC);
    this.#synced ??= this.#descriptors.within(again, DESCRIPTOR_WRITE_WAIT_MS);
    try {
      return await this.#synced;
    } catch (thrown) {
      this.#synced = undefined;
      throw notOpened(`open ${this.#path} for synced writes`, thrown);
    }
  }

  #check(offset: number): void {
    assert(this.#isOpen, `${this.#path} is open`);
    assert(Number.isSafeInteger(offset) && offset >= 0, `offset ${offset} is a place in a file`);
  }
}

/** What a short write left: a system may write a part of what it was given. */
function partsBehind(parts: readonly Uint8Array[], count: number): Uint8Array[] {
  let skip = count;
  const left: Uint8Array[] = [];
  for (const part of parts) {
    if (part.length > skip) left.push(part.subarray(skip));
    skip = Math.max(0, skip - part.length);
  }
  return left;
}

function codeOf(thrown: unknown): string {
  return (thrown as { code?: string } | undefined)?.code ?? "";
}

/** Nothing was opened, so nothing changed. */
function notOpened(what: string, cause: unknown): ConcordError {
  if (!isOutOfDescriptors(cause)) return failure(what, cause);
  const text = `${what}: this process has as many files open as it may have (${codeOf(cause)}): try again, or raise RLIMIT_NOFILE`;
  return new ConcordError("OVERLOADED", text, { applied: "no", cause });
}

function failure(what: string, cause: unknown): ConcordError {
  const text = `${what}: ${codeOf(cause) || String(cause)}`;
  return new ConcordError(FULL_CODES.has(codeOf(cause)) ? "STORAGE_FULL" : "STORE_FAILED", text, { cause });
}

/**
 * Files as an argument: the real ones, the simulator's, or memory. Paths have "/" and are relative to the disk's root; a path that
 * leaves it (".." or a leading "/") is a failed assertion.
 *
 * What survives a power cut is what was synced: a file's bytes after `DiskFile.sync`, its name after `syncFolder` of its folder. What
 * was not synced may be there whole, in part, torn, or in another order. A failed call rejects with STORE_FAILED (STORAGE_FULL when
 * there is no room); `open`, `create` and `list` with OVERLOADED, applied no, when the process has as many files open as it may have. After a
 * failed `sync` the content on disk is unknown, and a later sync of that file proves nothing (OGD8).
 */
export interface Disk {
  /** Makes a file that was not there; "exists" when something has the name. Two racing calls: one makes it. */
  create(path: string): Promise<DiskFile | "exists">;
  /** Opens a file for reading and writing; undefined when there is none. */
  open(path: string): Promise<DiskFile | undefined>;
  /** Names in a folder, sorted; empty when the folder is absent. */
  list(folder: string): Promise<readonly DiskEntry[]>;
  /** Makes the folder and those above it, durably. */
  makeFolder(folder: string): Promise<void>;
  /** Makes creations, renames and removals in the folder durable. */
  syncFolder(folder: string): Promise<void>;
  /** Atomic; replaces a file of the new name. Open files stay open. False when there is nothing of the old name. */
  rename(from: string, to: string): Promise<boolean>;
  /** Removes a file or an empty folder; false when there was none. Open files can be read on. */
  remove(path: string): Promise<boolean>;
  /** Room for new data on the file system of its root. */
  freeBytes(): Promise<number>;
}

export interface DiskEntry {
  readonly name: string;
  readonly kind: "file" | "folder";
}

export interface DiskFile {
  /** Bytes in the file as this handle knows them: as found, grown by its own writes. */
  readonly size: number;
  /** Writes all parts one behind the other from `offset` on; a gap reads as zeros. Resolves when reads see it, not when it is durable. */
  write(offset: number, parts: readonly Uint8Array[]): Promise<void>;
  /** As `write`, then `sync`: one call where the system has it. When it fails the bytes may be there, and durable, or not. */
  writeSynced(offset: number, parts: readonly Uint8Array[]): Promise<void>;
  /**
   * At most `length` bytes; fewer only at the end of the file. The answer is the caller's. `into`, of at least `length` bytes: memory that the
   * answer may lie in, so that none is made.
   */
  read(offset: number, length: number, into?: Uint8Array): Promise<Uint8Array>;
  /** Bytes and size are on disk (fdatasync). */
  sync(): Promise<void>;
  truncate(size: number): Promise<void>;
  /** Again: harmless. A file that is dropped without it is a failed process on Node: the system's handles are not collected. */
  close(): Promise<void>;
}

import { assert, ConcordError, type DiskEntry, diskSegments } from "@concord/runtime";
import { GrowingBytes } from "./growing-bytes.ts";

/** What a crash decides about: bytes of one page of one write, a truncation, a name made, moved or removed. */
export interface UnsyncedChange {
  readonly kind: "bytes" | "truncation" | "name";
  /** How much of it there is: bytes, else 1. */
  readonly length: number;
}

/** How much of an unsynced change survives: 0 is lost, `length` is whole, between them it is torn. */
export type CrashChooser = (change: UnsyncedChange) => number;

export const LOSE_UNSYNCED: CrashChooser = () => 0;
export const KEEP_UNSYNCED: CrashChooser = ({ length }) => length;

/** Pages of one write reach the disk in any order. */
const PAGE_BYTES = 4096;

type FileChange =
  | { readonly kind: "write"; readonly offset: number; readonly bytes: Uint8Array; state: ChangeState }
  | { readonly kind: "truncate"; readonly size: number; state: ChangeState };

/** `doubtful`: a sync that covered it failed, so no later sync writes it (the system takes its pages for clean). */
type ChangeState = "pending" | "synced" | "doubtful";

export interface MemoryFile {
  readonly kind: "file";
  current: GrowingBytes;
  durable: GrowingBytes;
  /** Changes since the state in `durable`, in order. */
  changes: FileChange[];
  /** Where its last sync wrote. */
  synced: { readonly nth: number; readonly from: number; readonly to: number } | undefined;
  /** Its last change by name or content, among all calls of the disk. */
  changedNth: number;
}

interface MemoryFolder {
  readonly kind: "folder";
  entries: Map<string, MemoryNode>;
  readonly durable: Map<string, MemoryNode>;
}

type MemoryNode = MemoryFile | MemoryFolder;

/** One change of names: all of it survives or nothing. Durable once `folder` is synced. */
interface NameChange {
  readonly folder: MemoryFolder;
  readonly sets: readonly { readonly folder: MemoryFolder; readonly name: string; readonly node: MemoryNode | undefined }[];
}

/** The state of a disk and what each operation does to it, without time: `diskOver` makes a Disk of it. Knows what a power cut may take. */
export class MemoryFiles {
  readonly #root = newFolder();
  #nameChanges: NameChange[] = [];
  #usedBytes = 0;
  #failingSyncs = 0;
  /** Calls that changed something. */
  nth = 0;
  /** Grows with every crash: handles of an earlier one are dead. */
  generation = 0;
  /** A write that needs more stops where the room ends, with STORAGE_FULL. */
  capacityBytes = Number.POSITIVE_INFINITY;

  get usedBytes(): number {
    return this.#usedBytes;
  }

  /** The next sync of a file or folder fails; the data it covered may or may not be there after a crash, whatever is synced later. */
  failNextSync(): void {
    this.#failingSyncs += 1;
  }

  clearFaults(): void {
    this.#failingSyncs = 0;
    this.capacityBytes = Number.POSITIVE_INFINITY;
  }

  create(path: string): MemoryFile | "exists" {
    const { folder, name } = this.#placeOf(path);
    if (folder.entries.has(name)) return "exists";
    const file: MemoryFile = {
      kind: "file",
      current: new GrowingBytes(),
      durable: new GrowingBytes(),
      changes: [],
      synced: undefined,
      changedNth: (this.nth += 1),
    };
    this.#rename(folder, [{ folder, name, node: file }]);
    return file;
  }

  find(path: string): MemoryFile | undefined {
    const node = this.#find(path);
    return node?.kind === "file" ? node : undefined;
  }

  list(path: string): readonly DiskEntry[] {
    const folder = this.#find(path);
    if (folder?.kind !== "folder") return [];
    const entries = [...folder.entries].map(([name, { kind }]) => ({ name, kind }));
    return entries.sort((left, right) => (left.name < right.name ? -1 : 1));
  }

  makeFolder(path: string): void {
    let folder = this.#root;
    for (const name of diskSegments(path)) {
      const present = folder.entries.get(name);
      if (present?.kind === "file") throw failed(`${path} goes through a file`);
      const next = present ?? newFolder();
      if (present === undefined) this.#rename(folder, [{ folder, name, node: next }]);
      this.#persistNames(folder);
      folder = next;
    }
  }

  syncFolder(path: string): void {
    const folder = this.#find(path);
    if (folder?.kind !== "folder") throw failed(`folder ${path} is absent`);
    this.#failIfPlanned(`sync of folder ${path}`);
    this.#persistNames(folder);
  }

  rename(from: string, to: string): boolean {
    const node = this.#find(from);
    const target = this.#placeOf(to);
    if (node === undefined) return false;
    const replaced = target.folder.entries.get(target.name);
    if (replaced === node) return true;
    if (replaced?.kind === "folder" || (replaced !== undefined && node.kind === "folder")) throw failed(`${to} is in the way`);
    const source = this.#placeOf(from);
    if (node.kind === "file") node.changedNth = this.nth += 1;
    if (replaced !== undefined) this.#usedBytes -= replaced.current.length;
    this.#rename(target.folder, [
      { ...source, node: undefined },
      { ...target, node },
    ]);
    return true;
  }

  remove(path: string): boolean {
    const node = this.#find(path);
    if (node === undefined) return false;
    if (node.kind === "folder" && node.entries.size > 0) throw failed(`folder ${path} is not empty`);
    if (node.kind === "file") this.#usedBytes -= node.current.length;
    const { folder, name } = this.#placeOf(path);
    this.#rename(folder, [{ folder, name, node: undefined }]);
    return true;
  }

  write(file: MemoryFile, offset: number, parts: readonly Uint8Array[]): void {
    let at = offset;
    file.changedNth = this.nth += 1;
    for (const part of parts) {
      const room = Math.max(0, this.capacityBytes - this.#usedBytes);
      const bytes = part.slice(0, Math.max(0, file.current.length + room - at));
      if (bytes.length > 0) {
        this.#usedBytes += Math.max(0, at + bytes.length - file.current.length);
        file.changes.push({ kind: "write", offset: at, bytes, state: "pending" });
        file.current.write(at, bytes);
      }
      at += bytes.length;
      if (bytes.length < part.length) throw new ConcordError("STORAGE_FULL", "the disk is full");
    }
  }

  read(file: MemoryFile, offset: number, length: number): Uint8Array {
    return file.current.slice(offset, offset + length);
  }

  truncate(file: MemoryFile, size: number): void {
    this.#usedBytes += size - file.current.length;
    file.changes.push({ kind: "truncate", size, state: "pending" });
    file.current.truncate(size);
  }

  sync(file: MemoryFile): void {
    const pending = file.changes.filter(({ state }) => state === "pending");
    if (this.#failingSyncs > 0) for (const change of pending) change.state = "doubtful";
    this.#failIfPlanned("sync of a file");
    for (const change of pending) change.state = "synced";
    const writes = pending.filter((change) => change.kind === "write");
    this.nth += 1;
    if (writes.length > 0) {
      const from = Math.min(...writes.map(({ offset }) => offset));
      const to = Math.max(...writes.map(({ offset, bytes }) => offset + bytes.length));
      file.synced = { nth: this.nth, from, to };
    }
    const done = file.changes.findIndex(({ state }) => state !== "synced");
    for (const change of file.changes.splice(0, done < 0 ? file.changes.length : done)) applyTo(file.durable, change);
  }

  /** A power cut: what was not synced survives as `chooser` says; every open file is dead. */
  crash(chooser: CrashChooser): void {
    this.generation += 1;
    this.#failingSyncs = 0;
    for (const change of this.#nameChanges) if (chooser({ kind: "name", length: 1 }) > 0) persist(change);
    this.#nameChanges = [];
    this.#usedBytes = 0;
    this.#restore(this.#root, chooser);
  }

  /**
   * A disk that said "synced" and was not: a byte of what the newest sync of the files that are meant wrote is another one. False, and nothing
   * happens, when that was a file's beginning, or when it is no newer than `nth` or older than a change of a file that `shows` that it was there. `at` chooses
   * among so many bytes.
   */
  rotNewest(isMeant: (path: string) => boolean, shows: (path: string) => boolean, nth: number, at: (bytes: number) => number): boolean {
    let newest: MemoryFile | undefined;
    let shownNth = nth + 1;
    for (const [path, file] of this.#all()) {
      if (isMeant(path) && (file.synced?.nth ?? 0) > (newest?.synced?.nth ?? 0)) newest = file;
      if (shows(path)) shownNth = Math.max(shownNth, file.changedNth);
    }
    if (newest?.synced === undefined || newest.synced.nth < shownNth) return false;
    const { from, to } = newest.synced;
    if (from === 0 || to > newest.durable.length) return false;
    const place = from + at(to - from);
    const [byte] = newest.durable.slice(place, place + 1);
    for (const bytes of [newest.current, newest.durable]) bytes.write(place, Uint8Array.of(byte! ^ 0xff));
    return true;
  }

  /** Every file's path and bytes: what tests look at. */
  contents(): ReadonlyMap<string, Uint8Array> {
    const found = Array.from(this.#all(), ([path, { current }]) => [path, current.slice(0, current.length)] as const);
    return new Map(found.sort(([left], [right]) => (left < right ? -1 : 1)));
  }

  *#all(folder = this.#root, prefix = ""): Generator<readonly [path: string, file: MemoryFile]> {
    for (const [name, node] of folder.entries) {
      if (node.kind === "folder") yield* this.#all(node, `${prefix}${name}/`);
      else yield [prefix + name, node];
    }
  }

  #restore(folder: MemoryFolder, chooser: CrashChooser): void {
    folder.entries = new Map(folder.durable);
    for (const node of folder.entries.values()) {
      if (node.kind === "folder") {
        this.#restore(node, chooser);
        continue;
      }
      for (const change of node.changes) applySurvivors(node.durable, change, chooser);
      node.changes = [];
      node.current = node.durable.copy();
      this.#usedBytes += node.current.length;
    }
  }

  #rename(folder: MemoryFolder, sets: NameChange["sets"]): void {
    this.#nameChanges.push({ folder, sets });
    for (const { folder: place, name, node } of sets) setName(place.entries, name, node);
  }

  #persistNames(folder: MemoryFolder): void {
    for (const change of this.#nameChanges) if (change.folder === folder) persist(change);
    this.#nameChanges = this.#nameChanges.filter((change) => change.folder !== folder);
  }

  #failIfPlanned(what: string): void {
    if (this.#failingSyncs === 0) return;
    this.#failingSyncs -= 1;
    throw failed(`${what} failed`);
  }

  #find(path: string): MemoryNode | undefined {
    let node: MemoryNode | undefined = this.#root;
    for (const name of diskSegments(path)) node = node?.kind === "folder" ? node.entries.get(name) : undefined;
    return node;
  }

  #placeOf(path: string): { folder: MemoryFolder; name: string } {
    const segments = diskSegments(path);
    const name = segments.at(-1);
    assert(name !== undefined, "the root is no name");
    const folder = this.#find(segments.slice(0, -1).join("/"));
    if (folder?.kind !== "folder") throw failed(`the folder of ${path} is absent`);
    return { folder, name };
  }
}

function newFolder(): MemoryFolder {
  return { kind: "folder", entries: new Map(), durable: new Map() };
}

function setName(names: Map<string, MemoryNode>, name: string, node: MemoryNode | undefined): void {
  if (node === undefined) names.delete(name);
  else names.set(name, node);
}

function persist(change: NameChange): void {
  for (const { folder, name, node } of change.sets) setName(folder.durable, name, node);
}

function applyTo(bytes: GrowingBytes, change: FileChange): void {
  if (change.kind === "truncate") bytes.truncate(change.size);
  else bytes.write(change.offset, change.bytes);
}

function applySurvivors(bytes: GrowingBytes, change: FileChange, chooser: CrashChooser): void {
  if (change.state === "synced") {
    applyTo(bytes, change);
    return;
  }
  if (change.kind === "truncate") {
    if (chooser({ kind: "truncation", length: 1 }) > 0) bytes.truncate(change.size);
    return;
  }
  let at = 0;
  while (at < change.bytes.length) {
    const length = Math.min(PAGE_BYTES - ((change.offset + at) % PAGE_BYTES), change.bytes.length - at);
    const kept = chooser({ kind: "bytes", length });
    if (kept > 0) bytes.write(change.offset + at, change.bytes.subarray(at, at + Math.min(kept, length)));
    at += length;
  }
}

function failed(message: string): ConcordError {
  return new ConcordError("STORE_FAILED", message);
}

import { assert, type Disk, type DiskEntry, type DiskFile } from "@concord/runtime";

/**
 * A disk over another one that forgets: what is written stays in memory, the other one is only read. So a check, or a program on a disk that
 * takes no writes, runs what it runs elsewhere, and changes nothing. Files that are written are in memory whole: segments of journals. A
 * file that is only read is closed below with the last handle on it.
 */
export function overlayDisk(base: Disk): Disk & { close(): Promise<void> } {
  const files = new OverlayFiles(base);
  const removed = async (path: string): Promise<OverlayFile | undefined> => {
    const file = await files.find(path);
    if (file !== undefined) files.byPath.set(path, undefined);
    return file;
  };
  return {
    async open(path) {
      const file = await files.find(path);
      return file === undefined ? undefined : files.handle(path, file);
    },
    async create(path) {
      if ((await files.find(path)) !== undefined) return "exists";
      const file = new OverlayFile(new Uint8Array());
      files.byPath.set(path, file);
      return files.handle(path, file);
    },
    async list(folder) {
      const entries = new Map((await base.list(folder)).map((entry) => [entry.name, entry]));
      for (const [path, file] of files.byPath) {
        const at = path.lastIndexOf("/");
        if (path.slice(0, Math.max(0, at)) !== folder) continue;
        const name = path.slice(at + 1);
        if (file === undefined) entries.delete(name);
        else entries.set(name, { name, kind: "file" });
      }
      return [...entries.values()].sort((left: DiskEntry, right: DiskEntry) => (left.name < right.name ? -1 : 1));
    },
    makeFolder: () => Promise.resolve(),
    freeBytes: () => base.freeBytes(),
    syncFolder: () => Promise.resolve(),
    async rename(from, to) {
      const file = await removed(from);
      if (file !== undefined) files.byPath.set(to, file);
      return file !== undefined;
    },
    remove: async (path) => (await removed(path)) !== undefined,
    close: () => files.close(),
  };
}

class OverlayFiles {
  /** Those that are open, were written or renamed; undefined: removed. */
  readonly byPath = new Map<string, OverlayFile | undefined>();
  readonly #base: Disk;
  /** All whose file below is open, also those that were removed or replaced. */
  readonly #open = new Set<OverlayFile>();

  constructor(base: Disk) {
    this.#base = base;
  }

  async find(path: string): Promise<OverlayFile | undefined> {
    if (this.byPath.has(path)) return this.byPath.get(path);
    const below = await this.#base.open(path);
    if (below === undefined) return undefined;
    if (this.byPath.has(path)) {
      await below.close();
      return this.byPath.get(path);
    }
    const file = new OverlayFile(below);
    this.#open.add(file);
    this.byPath.set(path, file);
    return file;
  }

  handle(path: string, file: OverlayFile): DiskFile {
    file.handles += 1;
    return new OverlayHandle(file, async () => {
      file.handles -= 1;
      assert(file.handles >= 0, "a handle is closed once");
      if (file.handles > 0 || file.isWritten || this.byPath.get(path) !== file) return;
      this.byPath.delete(path);
      this.#open.delete(file);
      await file.release();
    });
  }

  async close(): Promise<void> {
    for (const file of this.#open) await file.release();
    this.#open.clear();
  }
}

class OverlayFile {
  handles = 0;
  /** The file below, until it is written for the first time. */
  #content: DiskFile | Uint8Array;
  readonly #below: DiskFile | undefined;

  constructor(content: DiskFile | Uint8Array) {
    this.#content = content;
    this.#below = content instanceof Uint8Array ? undefined : content;
  }

  get isWritten(): boolean {
    return this.#content instanceof Uint8Array;
  }

  get size(): number {
    return this.#content instanceof Uint8Array ? this.#content.length : this.#content.size;
  }

  async write(offset: number, parts: readonly Uint8Array[]): Promise<void> {
    const end = parts.reduce((at, part) => at + part.length, offset);
    const bytes = await this.resized(Math.max(this.size, end));
    let at = offset;
    for (const part of parts) {
      bytes.set(part, at);
      at += part.length;
    }
  }

  async read(offset: number, length: number, into?: Uint8Array): Promise<Uint8Array> {
    const content = this.#content;
    return content instanceof Uint8Array ? content.slice(offset, offset + length) : content.read(offset, length, into);
  }

  async resized(size: number): Promise<Uint8Array> {
    if (this.#content instanceof Uint8Array && this.#content.length === size) return this.#content;
    const held = await this.read(0, Math.min(size, this.size));
    const bytes = new Uint8Array(size);
    bytes.set(held);
    this.#content = bytes;
    return bytes;
  }

  async release(): Promise<void> {
    await this.#below?.close();
  }
}

class OverlayHandle implements DiskFile {
  readonly #file: OverlayFile;
  readonly #onClose: () => Promise<void>;
  #isOpen = true;

  constructor(file: OverlayFile, onClose: () => Promise<void>) {
    this.#file = file;
    this.#onClose = onClose;
  }

  get size(): number {
    return this.#file.size;
  }

  write(offset: number, parts: readonly Uint8Array[]): Promise<void> {
    return this.#file.write(offset, parts);
  }

  writeSynced(offset: number, parts: readonly Uint8Array[]): Promise<void> {
    return this.#file.write(offset, parts);
  }

  read(offset: number, length: number, into?: Uint8Array): Promise<Uint8Array> {
    return this.#file.read(offset, length, into);
  }

  async truncate(size: number): Promise<void> {
    await this.#file.resized(size);
  }

  sync(): Promise<void> {
    return Promise.resolve();
  }

  async close(): Promise<void> {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    await this.#onClose();
  }
}

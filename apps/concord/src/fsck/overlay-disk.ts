import type { Disk, DiskEntry, DiskFile } from "@concord/runtime";

/**
 * A disk over another one that forgets: what is written stays in memory, the other one is only read. So a check runs what a start runs, and
 * changes nothing. Files that are written are in memory whole: segments of journals.
 */
export function overlayDisk(base: Disk): Disk & { close(): Promise<void> } {
  /** By path; undefined: removed. */
  const files = new Map<string, OverlayFile | undefined>();
  /** All there ever were, also those that were removed or replaced. */
  const opened: OverlayFile[] = [];
  const open = async (path: string): Promise<OverlayFile | undefined> => {
    if (files.has(path)) return files.get(path);
    const below = await base.open(path);
    if (below === undefined) return undefined;
    const file = new OverlayFile(below);
    opened.push(file);
    files.set(path, file);
    return file;
  };
  const removed = async (path: string): Promise<OverlayFile | undefined> => {
    const file = await open(path);
    if (file !== undefined) files.set(path, undefined);
    return file;
  };
  return {
    open,
    async create(path) {
      if ((await open(path)) !== undefined) return "exists";
      const file = new OverlayFile(new Uint8Array());
      files.set(path, file);
      return file;
    },
    async list(folder) {
      const entries = new Map((await base.list(folder)).map((entry) => [entry.name, entry]));
      for (const [path, file] of files) {
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
      if (file !== undefined) files.set(to, file);
      return file !== undefined;
    },
    remove: async (path) => (await removed(path)) !== undefined,
    async close() {
      for (const file of opened.splice(0)) await file.release();
    },
  };
}

class OverlayFile implements DiskFile {
  /** The file below, until it is written for the first time. */
  #content: DiskFile | Uint8Array;
  readonly #below: DiskFile | undefined;

  constructor(content: DiskFile | Uint8Array) {
    this.#content = content;
    this.#below = content instanceof Uint8Array ? undefined : content;
  }

  get size(): number {
    return this.#content instanceof Uint8Array ? this.#content.length : this.#content.size;
  }

  async write(offset: number, parts: readonly Uint8Array[]): Promise<void> {
    const end = parts.reduce((at, part) => at + part.length, offset);
    const bytes = await this.#resized(Math.max(this.size, end));
    let at = offset;
    for (const part of parts) {
      bytes.set(part, at);
      at += part.length;
    }
  }

  writeSynced(offset: number, parts: readonly Uint8Array[]): Promise<void> {
    return this.write(offset, parts);
  }

  async read(offset: number, length: number): Promise<Uint8Array> {
    const content = this.#content;
    return content instanceof Uint8Array ? content.slice(offset, offset + length) : content.read(offset, length);
  }

  async truncate(size: number): Promise<void> {
    await this.#resized(size);
  }

  sync(): Promise<void> {
    return Promise.resolve();
  }

  /** Others may have it open: `release` closes what is below. */
  close(): Promise<void> {
    return Promise.resolve();
  }

  async release(): Promise<void> {
    await this.#below?.close();
  }

  async #resized(size: number): Promise<Uint8Array> {
    const held = await this.read(0, Math.min(size, this.size));
    const bytes = new Uint8Array(size);
    bytes.set(held);
    this.#content = bytes;
    return bytes;
  }
}

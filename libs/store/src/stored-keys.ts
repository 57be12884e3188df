import { toConcordError, type Checksum, type Disk, type DiskFile, type Log } from "@concord/runtime";
import { KeyFilter } from "./key-filter.ts";
import { FILTER_KEYS_MIN, KEYS_FILE_BUFFER_KEYS, KEYS_FILE_BYTES_MAX, KEYS_FILE_READ_BYTES } from "./limits.ts";

/** Checksums of keys, u32 little-endian each, in the order in which the keys came: version 1, which has no header. */
const NAME = "keys";
/** Keys of the scan that runs; replaces the file above at its end. */
const NEW_NAME = "keys.new";
const KEY_BYTES = 4;

/** How much of the file counts, and the checksum of that much. What lies behind it is what a crash left of a later checkpoint. */
export interface KeysNote {
  readonly bytes: number;
  readonly checksum: number;
}

export interface StoredKeysContext {
  readonly disk: Disk;
  readonly folder: string;
  readonly checksum: Checksum;
  readonly log: Log;
}

type FileState = { readonly kind: "written"; name: string; bytes: number; checksum: number } | { readonly kind: "none" };

/**
 * The filter of a backing store's keys, and the file from which the next opening makes it again without reading the store (I10). The file can be
 * made anew by a scan at any time: a failed write of it ends the file, not the store.
 */
export class StoredKeys {
  readonly filter: KeyFilter;
  readonly #context: StoredKeysContext;
  #file: FileState;
  #waiting: number[] = [];

  private constructor(context: StoredKeysContext, filter: KeyFilter, file: FileState) {
    this.#context = context;
    this.filter = filter;
    this.#file = file;
  }

  /** Empty, for a scan that adds every key. `keys`: how many there are going to be, about. */
  static begin(context: StoredKeysContext, keys: number): StoredKeys {
    return new StoredKeys(context, new KeyFilter(keys), { kind: "written", name: NEW_NAME, bytes: 0, checksum: 0 });
  }

  /** Undefined when the file is not what the checkpoint noted, or has many more keys than the `keys` that are there: only a scan knows them. */
  static async load(context: StoredKeysContext, note: KeysNote | undefined, keys: number): Promise<StoredKeys | undefined> {
    // So many keys that every one may be there: no file knows better.
    if (new KeyFilter(keys).bytes === 0) return new StoredKeys(context, new KeyFilter(keys), { kind: "none" });
    if (note === undefined || note.bytes / KEY_BYTES > 4 * keys + FILTER_KEYS_MIN) return undefined;
    const file = await context.disk.open(pathOf(context, NAME));
    if (file === undefined) return undefined;
    try {
      const filter = new KeyFilter(keys);
      const checksum = await addAll(file, note.bytes, filter, context.checksum);
      if (checksum !== note.checksum) return undefined;
      return new StoredKeys(context, filter, { kind: "written", name: NAME, ...note });
    } finally {
      await file.close();
    }
  }

  /** A key that the backing store did not have and is going to have. */
  add(keyChecksum: number): void {
    this.filter.add(keyChecksum);
    if (this.#file.kind === "written") this.#waiting.push(keyChecksum);
  }

  /** Keeps what waits in memory bounded. */
  async write(): Promise<void> {
    if (this.#waiting.length >= KEYS_FILE_BUFFER_KEYS) await this.#write("unsynced");
  }

  /** The file as it is on disk now, with every key that was added; undefined: it is no use. */
  async note(): Promise<KeysNote | undefined> {
    if (this.#file.kind === "written" && this.#waiting.length > 0) await this.#write("synced");
    if (this.#file.kind === "none" || this.#file.name !== NAME) return undefined;
    return { bytes: this.#file.bytes, checksum: this.#file.checksum };
  }

  /** Every key of the backing store was added: the file takes the place of the one before. */
  async finish(): Promise<void> {
    const { disk, folder } = this.#context;
    await this.#write("synced");
    await this.#attempt(async (file) => {
      await disk.rename(pathOf(this.#context, NEW_NAME), pathOf(this.#context, NAME));
      await disk.syncFolder(folder);
      file.name = NAME;
    });
  }

  async #write(durability: "synced" | "unsynced"): Promise<void> {
    const checksums = this.#waiting;
    this.#waiting = [];
    await this.#attempt(async (file) => {
      const bytes = new Uint8Array(checksums.length * KEY_BYTES);
      const view = new DataView(bytes.buffer);
      for (const [nth, checksum] of checksums.entries()) view.setUint32(nth * KEY_BYTES, checksum, true);
      const isNew = file.name === NEW_NAME && file.bytes === 0;
      const open = await openOrMake(this.#context.disk, pathOf(this.#context, file.name), isNew);
      try {
        if (durability === "synced") await open.writeSynced(file.bytes, [bytes]);
        else await open.write(file.bytes, [bytes]);
      } finally {
        await open.close();
      }
      file.bytes += bytes.length;
      file.checksum = this.#context.checksum(bytes, file.checksum);
    });
    const isUseless = this.#file.kind === "written" && (this.filter.bytes === 0 || this.#file.bytes > KEYS_FILE_BYTES_MAX);
    if (isUseless) this.#file = { kind: "none" };
  }

  async #attempt(act: (file: FileState & { readonly kind: "written" }) => Promise<void>): Promise<void> {
    if (this.#file.kind === "none") return;
    try {
      await act(this.#file);
    } catch (thrown) {
      this.#file = { kind: "none" };
      const { folder, log } = this.#context;
      log.warn("the file of the store's keys is not written any more: the next start reads the whole store while it serves", {
        folder,
        reason: toConcordError(thrown).message,
      });
    }
  }
}

function pathOf({ folder }: StoredKeysContext, name: string): string {
  return `${folder}/${name}`;
}

/** A file that begins takes the place of what an earlier scan left of one. */
async function openOrMake(disk: Disk, path: string, isNew: boolean): Promise<DiskFile> {
  if (isNew) await disk.remove(path);
  const file = isNew ? await disk.create(path) : await disk.open(path);
  if (file === undefined || file === "exists") throw new Error(`${path} ${file === undefined ? "is gone" : "is there already"}`);
  return file;
}

/** Returns the checksum of the bytes; undefined when there are fewer. */
async function addAll(file: DiskFile, length: number, filter: KeyFilter, checksum: Checksum): Promise<number | undefined> {
  let sum = 0;
  for (let at = 0; at < length; at += KEYS_FILE_READ_BYTES) {
    const part = await file.read(at, Math.min(KEYS_FILE_READ_BYTES, length - at));
    if (part.length < Math.min(KEYS_FILE_READ_BYTES, length - at)) return undefined;
    sum = checksum(part, sum);
    const view = new DataView(part.buffer, part.byteOffset, part.byteLength);
    for (let key = 0; key < part.length; key += KEY_BYTES) filter.add(view.getUint32(key, true));
  }
  return sum;
}

// Version 1 of the file that fences epochs whose folders are gone: every epoch below its number is closed.
import { ByteReader, ByteWriter, corrupt } from "@concord/codec";
import { ConcordError, toHex, type Checksum, type Disk, type DiskFile, type Random } from "@concord/runtime";
import { withChecksum, withoutChecksum } from "./blob-format.ts";
import { FLOOR_ATTEMPTS_MAX } from "./limits.ts";

const FOLDER = "pieces/closed-below";
const NAME = /^[0-9a-f]{8}$/;
const DRAFT_NAME = /^draft-[0-9a-f]+$/;
const DRAFT_NAME_BYTES = 8;
const MAGIC = 0x434e4542;
const FORMAT_VERSION = 1;

const nameOf = (epoch: number): string => epoch.toString(16).padStart(8, "0");

export interface ClosedBelowOptions {
  readonly disk: Disk;
  readonly checksum: Checksum;
  /** Draws names of drafts: no two processes write the same one. */
  readonly random: Random;
  readonly failpoint: (name: string) => void;
  /** Names in a folder are durable, or the process ends (I5). */
  readonly sync: (folder: string) => Promise<void>;
}

/**
 * A number that only rises, shared by processes without a lock: each value is a file of its own, and the highest one counts. A slow process
 * that writes a lower one changes nothing.
 */
export class ClosedBelow {
  readonly #options: ClosedBelowOptions;
  #known = 0;
  #durable = 0;

  constructor(options: ClosedBelowOptions) {
    this.#options = options;
  }

  /** As of the last read: it may have risen since. */
  get known(): number {
    return this.#known;
  }

  /** 0: there is no file. CORRUPT_DATA: it is damaged, and nothing is known. */
  async read(): Promise<number> {
    const { disk, checksum } = this.#options;
    this.#known = Math.max(this.#known, await checkClosedBelow(disk, checksum));
    return this.#known;
  }

  /** Durable when it resolves: at least `epoch`. The answer is the number that holds. */
  async raise(epoch: number): Promise<number> {
    const { disk, sync, failpoint } = this.#options;
    if (epoch > (await this.read())) await this.#publish(epoch);
    const known = await this.read();
    if (known <= this.#durable) return known;
    // Also when another process wrote it: folders go only after it is on disk.
    await sync(FOLDER);
    this.#durable = known;
    failpoint("epochs:closed-below-synced");
    for (const { name } of await disk.list(FOLDER))
      if (NAME.test(name) && Number.parseInt(name, 16) < known) await disk.remove(`${FOLDER}/${name}`);
    return known;
  }

  /** Whole before it has its name. */
  async #publish(epoch: number): Promise<void> {
    const { disk, checksum, failpoint } = this.#options;
    await disk.makeFolder(FOLDER);
    const draft = await this.#makeDraft();
    try {
      await draft.file.write(0, [encodeClosedBelow(epoch, checksum)]);
      await draft.file.sync();
    } catch (thrown) {
      await disk.remove(draft.path).catch(() => false);
      throw thrown;
    } finally {
      await draft.file.close();
    }
    failpoint("epochs:closed-below-written");
    const published = await disk.rename(draft.path, `${FOLDER}/${nameOf(epoch)}`);
    if (!published) throw new ConcordError("STORE_FAILED", `${draft.path} was removed by another process`, { applied: "no" });
  }

  /**
   * Removes the drafts of others, which ended or may draw another name. The name of ours is that of no other process: one whose draft is gone finds no
   * file to rename, and never one that another writes.
   */
  async #makeDraft(): Promise<{ readonly path: string; readonly file: DiskFile }> {
    const { disk, random } = this.#options;
    for (const { name } of await disk.list(FOLDER)) if (DRAFT_NAME.test(name)) await disk.remove(`${FOLDER}/${name}`);
    const path = `${FOLDER}/draft-${toHex(random.bytes(DRAFT_NAME_BYTES))}`;
    const file = await disk.create(path);
    if (file === "exists") throw new ConcordError("STORE_FAILED", `another process writes ${path}`, { applied: "no" });
    return { path, file };
  }
}

/** The number that holds on a disk; 0: none does. CORRUPT_DATA: it is damaged. Reads only. */
export async function checkClosedBelow(disk: Disk, checksum: Checksum): Promise<number> {
  for (let attempt = 0; attempt < FLOOR_ATTEMPTS_MAX; attempt += 1) {
    const name = (await disk.list(FOLDER)).findLast((entry) => NAME.test(entry.name))?.name;
    if (name === undefined) return 0;
    const found = await readFile(disk, checksum, name);
    if (found !== undefined) return found;
    // A higher one came, and this one went.
  }
  throw new ConcordError("STORE_FAILED", `the files in ${FOLDER} keep changing`, { applied: "no" });
}

/** Undefined: the file is gone. */
async function readFile(disk: Disk, checksum: Checksum, name: string): Promise<number | undefined> {
  const file = await disk.open(`${FOLDER}/${name}`);
  if (file === undefined) return undefined;
  try {
    const epoch = decodeClosedBelow(await file.read(0, file.size), checksum);
    if (epoch === Number.parseInt(name, 16)) return epoch;
  } finally {
    await file.close();
  }
  throw corrupt(
    `${FOLDER}/${name}, which says which epochs are closed, is damaged: restore it from a backup; or stop every gateway of this folder, ` +
      `remove the file and start them: the rows of the epochs say the same`,
  );
}

export function encodeClosedBelow(epoch: number, checksum: Checksum): Uint8Array {
  return withChecksum(new ByteWriter().u32(MAGIC).u8(FORMAT_VERSION).u32(epoch).finish(), checksum);
}

/** Undefined: it is not whole. CORRUPT_DATA: it is of a newer format. */
export function decodeClosedBelow(bytes: Uint8Array, checksum: Checksum): number | undefined {
  const content = bytes.length > 4 ? withoutChecksum(bytes, checksum) : undefined;
  const reader = content && new ByteReader(content);
  if (reader?.u32() !== MAGIC) return undefined;
  const version = reader.u8();
  if (version !== FORMAT_VERSION) throw corrupt(`the file of closed epochs has format ${version}, known is ${FORMAT_VERSION}`);
  return reader.u32();
}

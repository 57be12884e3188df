// Versions of the list of workers in the folder that they share: each is made once, by a rename, and never changed.
import { ConcordError, toConcordError, toHex, type Checksum, type Disk, type Random } from "@concord/runtime";
import { decodeWorkerList, encodeWorkerList, type WorkerList, type WorkerLists } from "./worker-list.ts";

const FOLDER = "workers";
const FILE = "list";
const NAME = /^list-(\d{8})$/;
const NAME_DIGITS = 8;
const DRAFT_BYTES = 8;

export interface FolderListsOptions {
  /** Shared by all workers. */
  readonly disk: Disk;
  readonly checksum: Checksum;
  readonly random: Random;
}

export class FolderLists implements WorkerLists {
  readonly #options: FolderListsOptions;
  /** Of the newest version that was read, which never changes. */
  #read: { readonly name: string; readonly list: WorkerList } | undefined;

  constructor(options: FolderListsOptions) {
    this.#options = options;
  }

  async read(): Promise<WorkerList | undefined> {
    const { disk, checksum } = this.#options;
    const newest = (await disk.list(FOLDER)).filter(({ name }) => NAME.test(name)).at(-1);
    if (newest === undefined || newest.name === this.#read?.name) return this.#read?.list;
    const file = await disk.open(`${FOLDER}/${newest.name}/${FILE}`);
    if (file === undefined) throw damaged(newest.name, "it has no content");
    try {
      const list = decodeWorkerList(await file.read(0, file.size), checksum);
      this.#read = { name: newest.name, list };
      return list;
    } catch (thrown) {
      const error = toConcordError(thrown);
      throw error.kind === "corrupt" ? damaged(newest.name, error.message) : error;
    } finally {
      await file.close();
    }
  }

  /** Whole and durable before it gets its name. */
  async write(list: WorkerList): Promise<boolean> {
    const { disk, checksum, random } = this.#options;
    const draft = `${FOLDER}/draft-${toHex(random.bytes(DRAFT_BYTES))}`;
    await disk.makeFolder(draft);
    const file = await disk.create(`${draft}/${FILE}`);
    if (file === "exists") return false;
    try {
      await file.write(0, [encodeWorkerList(list, checksum)]);
      await file.sync();
    } finally {
      await file.close();
    }
    await disk.syncFolder(draft);
    const name = `list-${String(list.version).padStart(NAME_DIGITS, "0")}`;
    try {
      await disk.rename(draft, `${FOLDER}/${name}`);
    } catch (thrown) {
      const isTaken = (await disk.list(FOLDER)).some((entry) => entry.name === name);
      await disk.remove(`${draft}/${FILE}`).catch(() => false);
      await disk.remove(draft).catch(() => false);
      if (!isTaken) throw thrown;
      return false;
    }
    await disk.syncFolder(FOLDER);
    return true;
  }

  async close(): Promise<void> {}
}

function damaged(name: string, reason: string): ConcordError {
  const repair = `stop all workers, remove that folder, start them with the version before, and repeat the change`;
  return new ConcordError("CORRUPT_DATA", `${FOLDER}/${name} in the folder of the logs is damaged (${reason}): ${repair}`);
}

import { oidOf, parseOid, type Oid, type OidRange } from "@concord/ports";
import { ConcordError, Rounds, toConcordError, type Checksum, type Disk, type Log, type Random } from "@concord/runtime";
import { ClosedBelow } from "./closed-below.ts";
import { KNOWN_FOLDERS_MAX, BLOBS_PER_FOLDER } from "./limits.ts";

const ROOT = "pieces";
const CLOSED = ".closed";
/** A file in every closed epoch's folder, so that one call tells whether one is there. */
export const MARK = "epoch";
/** Segments of a closed epoch: `packed`, and after each acquisition the next `packed-<generation>`. */
const PACKED = "packed";
const PACKED_NAME = /^packed(?:-(\d{1,5}))?$/;
const LOCATE_ATTEMPTS_MAX = 3;
const EPOCH_NAME = /^([0-9a-f]{8})(\.closed)?$/;
const FOLDER_NAME = /^[0-9a-f]{9}$/;
/** A third closer would need two others that crash between two calls. */
const CLOSE_ATTEMPTS_MAX = 4;

export interface PackedPlace {
  readonly path: string;
  /** The epoch's folder. */
  readonly parent: string;
  readonly closed: boolean;
  readonly generation: number;
}

export function packedPlace(epoch: number, closed: boolean, generation: number): PackedPlace {
  const parent = closed ? closedEpoch(epoch) : openEpoch(epoch);
  return { path: `${parent}/${packedName(generation)}`, parent, closed, generation };
}

export const packedName = (generation: number): string => `${PACKED}${generation === 0 ? "" : `-${generation}`}`;

/** Undefined: the name is not that of a folder of segments. */
export function generationOf(name: string): number | undefined {
  const found = PACKED_NAME.exec(name);
  return found === null ? undefined : Number(found[1] ?? 0);
}

/** A folder of blobs that are files of their own. */
export const isGroup = (name: string): boolean => FOLDER_NAME.test(name);

export interface EpochFolder {
  readonly epoch: number;
  readonly closed: boolean;
  readonly path: string;
}

export interface EpochFoldersOptions {
  readonly disk: Disk;
  readonly checksum: Checksum;
  readonly random: Random;
  readonly failpoint: (name: string) => void;
  readonly log: Log;
  /** A sync failed, and only a process that reads the folders anew may trust them again (I5). */
  readonly onFailed: (cause: ConcordError) => void;
}

/**
 * The folders of blobs, and the fence of an epoch. Closing is one rename of the epoch's folder (I2): what was made before it goes along and
 * is found, what is made in the old path fails, since folders are made only by `ready`, which looks for the closed one afterwards.
 */
export class EpochFolders {
  readonly #disk: Disk;
  readonly #log: Log;
  readonly #onFailed: (cause: ConcordError) => void;
  readonly #ready = new Map<string, Promise<void>>();
  readonly #syncs = new Map<string, Rounds>();
  /** Folders whose sync failed, and why. */
  readonly #failed = new Map<string, unknown>();
  /** One for each epoch being written: only our own. */
  readonly #checks = new Map<number, Rounds>();
  /** By open epoch that we write: folders that may hold blobs. No other process makes any in it. */
  readonly #blobFolders = new Map<number, Promise<Set<string>>>();
  /** Epochs whose closed folder was seen: they stay closed. */
  readonly #closed = new Set<number>();
  /** Fences epochs whose folders are gone (I11). */
  readonly #closedBelow: ClosedBelow;
  /** By open epoch that we write: the last file made in it. */
  readonly #made = new Map<number, string>();
  /** A file made in the open epoch before a look found it open: while its path is there, the epoch was not closed (I13). */
  readonly #witnesses = new Map<number, string>();

  constructor({ disk, checksum, random, failpoint, log, onFailed }: EpochFoldersOptions) {
    this.#disk = disk;
    this.#closedBelow = new ClosedBelow({ disk, checksum, random, failpoint, sync: (folder) => this.syncOrStop(folder) });
    this.#log = log;
    this.#onFailed = onFailed;
  }

  /** The path for a new blob; its folder exists durably. EPOCH_FENCED. */
  async ready(oid: Oid): Promise<string> {
    const folder = openFolder(oid);
    const { epoch, sequence } = parseOid(oid);
    (await this.#blobFoldersOf(epoch)).add(folderName(sequence));
    await this.#readyFolder(epoch, folder);
    return `${folder}/${oid}`;
  }

  /** False: no blob in a file of its own has that name. Of an epoch that is open and ours. */
  async mayHaveFile(oid: Oid): Promise<boolean> {
    const { epoch, sequence } = parseOid(oid);
    return (await this.#blobFoldersOf(epoch)).has(folderName(sequence));
  }

  /** The folder of the epoch's segments, as `ready` (I2). EPOCH_FENCED. */
  async readyPacked(epoch: number): Promise<string> {
    const folder = `${openEpoch(epoch)}/${PACKED}`;
    await this.#readyFolder(epoch, folder);
    return folder;
  }

  async #readyFolder(epoch: number, folder: string): Promise<void> {
    if (this.#isKnownClosed(epoch)) throw fenced(epoch);
    const known = this.#ready.get(folder);
    if (known !== undefined) return await known;
    const making = this.#make(epoch, folder);
    this.#ready.set(folder, making);
    forgetOldest(this.#ready);
    await making.catch((thrown: unknown) => {
      this.#ready.delete(folder);
      throw thrown;
    });
  }

  /** After a call in the open path failed: EPOCH_FENCED when that is why, else what was thrown. */
  async explain(oid: Oid, thrown: unknown): Promise<never> {
    return await this.explainFolder(parseOid(oid).epoch, openFolder(oid), thrown);
  }

  async explainFolder(epoch: number, folder: string, thrown: unknown): Promise<never> {
    this.#ready.delete(folder);
    if (await this.isClosed(epoch)) throw fenced(epoch);
    throw thrown;
  }

  /** The blob's name is durable, and its epoch was open when all its bytes were there to be found (I3). EPOCH_FENCED. */
  async settle(oid: Oid): Promise<void> {
    const { epoch } = parseOid(oid);
    await this.syncNew(epoch, openFolder(oid));
    await this.assertOpen(epoch);
  }

  /**
   * Names that a seal needs, in a folder of our open epoch, are durable. After a failure no later sync proves that: the epoch is closed,
   * nothing is sealed in it any more, and its gateway takes another one (I5). EPOCH_FENCED.
   */
  async syncNew(epoch: number, folder: string): Promise<void> {
    try {
      await this.#sync(folder);
    } catch (thrown) {
      await this.#abandon(epoch, thrown);
    }
  }

  /**
   * The changes in a folder that outlives our epoch, or in one of an epoch that is not ours, are durable. A failure ends the process (I5),
   * unless `hasMoved` says that the folder is elsewhere now.
   */
  async syncOrStop(folder: string, hasMoved: () => Promise<boolean> = () => Promise.resolve(false)): Promise<void> {
    try {
      await this.#sync(folder);
    } catch (thrown) {
      if (!(await hasMoved())) this.#onFailed(toConcordError(thrown));
      throw thrown;
    }
  }

  syncRoot(): Promise<void> {
    return this.syncOrStop(ROOT);
  }

  /** As `syncOrStop`, for segments. */
  async syncPacked(epoch: number, path: string): Promise<void> {
    await this.syncOrStop(path, async () => (await this.locatePacked(epoch))?.path !== path);
  }

  /** EPOCH_FENCED when the epoch was closed before the call. */
  async assertOpen(epoch: number): Promise<void> {
    if (this.#isKnownClosed(epoch)) throw fenced(epoch);
    const check = this.#checks.get(epoch) ?? new Rounds(() => this.#look(epoch));
    this.#checks.set(epoch, check);
    await check.join();
  }

  /** A file whose name is never used again was made in the folder of our open epoch. */
  made(epoch: number, path: string): void {
    this.#made.set(epoch, path);
  }

  /** Where the blob may lie, in the order in which to look: it moves only from the first to the second. */
  places(oid: Oid): readonly string[] {
    const [open, closed] = [`${openFolder(oid)}/${oid}`, `${closedFolder(oid)}/${oid}`];
    return this.#closed.has(parseOid(oid).epoch) ? [closed, open] : [open, closed];
  }

  /** Removals in the blob's folder, also those of a process before us, are durable. */
  async settleRemoval(oid: Oid): Promise<void> {
    const { epoch, sequence } = parseOid(oid);
    const name = folderName(sequence);
    for (const parent of [closedEpoch(epoch), openEpoch(epoch)])
      if ((await this.#disk.list(parent)).some((entry) => entry.name === name)) return await this.#syncMoving(epoch, oid);
  }

  /** Where the epoch's segments are now; a moment later they may have moved. Undefined: it has none. */
  async locatePacked(epoch: number): Promise<PackedPlace | undefined> {
    for (let attempt = 0; attempt < LOCATE_ATTEMPTS_MAX; attempt += 1) {
      const closed = await this.#isMarked(epoch);
      const parent = closed ? closedEpoch(epoch) : openEpoch(epoch);
      const generations = (await this.#disk.list(parent)).flatMap(({ name, kind }) => {
        return kind === "folder" ? (generationOf(name) ?? []) : [];
      });
      if (generations.length > 0) return packedPlace(epoch, closed, Math.max(...generations));
      // A folder that is renamed while its parent is read may be missed: absent is what stays absent.
      if (!closed && !(await this.#isMarked(epoch))) return undefined;
    }
    return undefined;
  }

  /** Its folder says so, or the file in place of folders that are gone: that one is read last, since it is there before a folder goes (I11). */
  async isClosed(epoch: number): Promise<boolean> {
    return this.#isKnownClosed(epoch) || (await this.#isMarked(epoch)) || epoch < (await this.#closedBelow.read());
  }

  /** Nothing of a closed epoch is left, or what is left is being removed: it has no blob. */
  async isGone(epoch: number): Promise<boolean> {
    return epoch < (await this.#closedBelow.read()) && !(await this.#hasMark(epoch));
  }

  /** Every epoch below is closed, whatever folders there are; 0: only folders say which are. CORRUPT_DATA. */
  closedBelow(): Promise<number> {
    return this.#closedBelow.read();
  }

  /** Durable. The answer may be higher. */
  raiseClosedBelow(epoch: number): Promise<number> {
    return this.#closedBelow.raise(epoch);
  }

  #isKnownClosed(epoch: number): boolean {
    return epoch < this.#closedBelow.known || this.#closed.has(epoch);
  }

  async #isMarked(epoch: number): Promise<boolean> {
    if (this.#closed.has(epoch)) return true;
    const marked = await this.#hasMark(epoch);
    if (marked) this.#closed.add(epoch);
    return marked;
  }

  async #hasMark(epoch: number): Promise<boolean> {
    const mark = await this.#disk.open(`${closedEpoch(epoch)}/${MARK}`);
    await mark?.close();
    return mark !== undefined;
  }

  async close(epoch: number): Promise<void> {
    for (let attempt = 0; attempt < CLOSE_ATTEMPTS_MAX && !(await this.isClosed(epoch)); attempt += 1) await this.#tryClose(epoch);
    if (!(await this.isClosed(epoch))) throw new ConcordError("STORE_FAILED", `epoch ${epoch} cannot be closed: its folder keeps changing`);
    await this.syncRoot();
  }

  /** Also the last one whose folder may be gone: no number is given out again. */
  async epochs(): Promise<readonly number[]> {
    const named = (await this.listFolders()).map(({ epoch }) => epoch);
    const below = await this.#closedBelow.read();
    return [...new Set(below > 1 ? [...named, below - 1] : named)].sort((left, right) => left - right);
  }

  /** In order of their epochs. */
  async listFolders(): Promise<readonly EpochFolder[]> {
    return (await this.#disk.list(ROOT)).flatMap(({ name }) => {
      const found = EPOCH_NAME.exec(name);
      return found === null ? [] : { epoch: Number.parseInt(found[1]!, 16), closed: found[2] !== undefined, path: `${ROOT}/${name}` };
    });
  }

  /** Names that are not ours (a system's own) are none of the epoch's blobs. */
  async list({ epoch, fromSequence, limit }: OidRange): Promise<readonly Oid[]> {
    const first = oidOf(epoch, fromSequence);
    const listed: Oid[] = [];
    for (const folder of await this.#foldersOf(epoch)) {
      if (folder < folderName(fromSequence)) continue;
      const names = new Set<string>();
      for (const parent of [openEpoch(epoch), closedEpoch(epoch)])
        for (const { name } of await this.#disk.list(`${parent}/${folder}`)) if (isOidOf(epoch, name) && name >= first) names.add(name);
      listed.push(...([...names].sort() as Oid[]));
      if (listed.length >= limit) break;
    }
    return listed.slice(0, limit);
  }

  /** Listed once: from then on it is known by what `ready` made. */
  #blobFoldersOf(epoch: number): Promise<Set<string>> {
    const known = this.#blobFolders.get(epoch);
    if (known !== undefined) return known;
    const listing = this.#foldersOf(epoch).then((names) => new Set(names));
    this.#blobFolders.set(epoch, listing);
    forgetOldest(this.#blobFolders);
    listing.catch(() => this.#blobFolders.delete(epoch));
    return listing;
  }

  async #foldersOf(epoch: number): Promise<readonly string[]> {
    const names = new Set<string>();
    for (const parent of [openEpoch(epoch), closedEpoch(epoch)])
      for (const { name } of await this.#disk.list(parent)) if (FOLDER_NAME.test(name)) names.add(name);
    return [...names].sort();
  }

  /** A close between our two calls leaves behind the folder we made: it is empty and unseen, so it is removed. */
  async #make(epoch: number, folder: string): Promise<void> {
    if (await this.isClosed(epoch)) throw fenced(epoch);
    try {
      await this.#disk.makeFolder(folder);
    } catch (thrown) {
      // It is there: what failed is the sync of a name above it.
      if ((await this.#disk.list(openEpoch(epoch))).some(({ name }) => folder.endsWith(`/${name}`))) await this.#abandon(epoch, thrown);
      throw thrown;
    }
    if (!(await this.isClosed(epoch))) return;
    for (const path of [folder, `${openEpoch(epoch)}/${MARK}`, openEpoch(epoch)]) await this.#disk.remove(path).catch(() => false);
    throw fenced(epoch);
  }

  /** The mark is durable before the name that shows it. */
  async #tryClose(epoch: number): Promise<void> {
    try {
      await this.#disk.makeFolder(openEpoch(epoch));
      const mark = await this.#disk.create(`${openEpoch(epoch)}/${MARK}`);
      if (mark !== "exists") await mark.close();
      await this.syncOrStop(openEpoch(epoch), () => this.isClosed(epoch));
      await this.#disk.rename(openEpoch(epoch), closedEpoch(epoch));
    } catch (thrown) {
      if (!(await this.isClosed(epoch))) throw thrown;
    }
  }

  /** One call while the witness is there. */
  async #look(epoch: number): Promise<void> {
    const witness = this.#witnesses.get(epoch);
    const there = witness === undefined ? undefined : await this.#disk.open(witness);
    await there?.close();
    if (there !== undefined) return;
    // Made before this look: if it is made in a folder that was closed and came back, the look finds that.
    const made = this.#made.get(epoch);
    if (await this.isClosed(epoch)) throw fenced(epoch);
    if (made !== undefined) this.#witnesses.set(epoch, made);
  }

  async #syncMoving(epoch: number, oid: Oid): Promise<void> {
    if (!(await this.isClosed(epoch))) {
      try {
        return await this.syncOrStop(openFolder(oid), () => this.isClosed(epoch));
      } catch (thrown) {
        if (!(await this.isClosed(epoch))) throw thrown;
      }
    }
    const { sequence } = parseOid(oid);
    // Its names were durable before the folder went (I12).
    const isGone = async (): Promise<boolean> =>
      !(await this.#disk.list(closedEpoch(epoch))).some(({ name }) => name === folderName(sequence));
    await this.syncOrStop(closedFolder(oid), isGone).catch(async (thrown: unknown) => {
      if (!(await isGone())) throw thrown;
    });
  }

  /** Of our open epoch, after a failed sync. Throws EPOCH_FENCED, or `thrown` when the process must end. */
  async #abandon(epoch: number, thrown: unknown): Promise<never> {
    if (!(await this.isClosed(epoch))) {
      this.#log.error("a folder could not be synced: the epoch is closed", { epoch, reason: toConcordError(thrown).message });
      await this.close(epoch).catch((cause: unknown) => {
        this.#onFailed(toConcordError(cause));
        throw thrown;
      });
    }
    throw fenced(epoch);
  }

  /** Names in the folder are durable: one sync for all who ask before it begins. */
  #sync(folder: string): Promise<void> {
    const known = this.#syncs.get(folder);
    if (known !== undefined) return known.join();
    const rounds = new Rounds(() => this.#syncOnce(folder));
    this.#syncs.set(folder, rounds);
    forgetOldest(this.#syncs);
    return rounds.join();
  }

  /** After a failed sync the state on disk is unknown, and a later sync proves nothing (I5). */
  async #syncOnce(folder: string): Promise<void> {
    const cause = this.#failed.get(folder);
    if (cause !== undefined) throw new ConcordError("STORE_FAILED", `a sync of ${folder} failed before`, { cause });
    try {
      await this.#disk.syncFolder(folder);
    } catch (thrown) {
      this.#failed.set(folder, thrown);
      throw thrown;
    }
  }
}

function forgetOldest<Key>(known: Map<Key, unknown>): void {
  const oldest = known.keys().next();
  if (known.size > KNOWN_FOLDERS_MAX && oldest.done !== true) known.delete(oldest.value);
}

const folderName = (sequence: number): string =>
  Math.floor(sequence / BLOBS_PER_FOLDER)
    .toString(16)
    .padStart(9, "0");
const openEpoch = (epoch: number): string => `${ROOT}/${epoch.toString(16).padStart(8, "0")}`;
const closedEpoch = (epoch: number): string => openEpoch(epoch) + CLOSED;

function openFolder(oid: Oid): string {
  const { epoch, sequence } = parseOid(oid);
  return `${openEpoch(epoch)}/${folderName(sequence)}`;
}

function closedFolder(oid: Oid): string {
  const { epoch, sequence } = parseOid(oid);
  return `${closedEpoch(epoch)}/${folderName(sequence)}`;
}

function isOidOf(epoch: number, name: string): name is Oid {
  return name.startsWith(`${epoch.toString(16).padStart(8, "0")}-`) && /^[0-9a-f]{8}-[0-9a-f]{12}$/.test(name);
}

export function fenced(epoch: number): ConcordError {
  return new ConcordError("EPOCH_FENCED", `epoch ${epoch} of the data is closed: another gateway recovered it`, { applied: "no" });
}

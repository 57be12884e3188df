import { ConcordError, type Disk, type Log } from "@concord/runtime";
import { generationOf, isGroup, MARK, packedName, type EpochFolder, type EpochFolders } from "./epoch-folders.ts";
import { EPOCHS_SWEPT_MAX, SEGMENTS_MAX } from "./limits.ts";
import { indexedSegmentOf, isDraft, isRemovals } from "./segment-file.ts";

const BOUNDS_NAME = /^bounds(?:-\d+)?$/;

export interface EpochSweepOptions {
  readonly disk: Disk;
  readonly folders: EpochFolders;
  readonly failpoint: (name: string) => void;
  readonly log: Log;
}

/** What is in an epoch's folder without blobs. */
interface Empty {
  /** Folders that blobs lay in. */
  readonly groups: readonly string[];
  /** Folders of bounds and of their drafts. */
  readonly bounds: readonly string[];
  readonly packed: readonly { readonly name: string; readonly generation: number }[];
}

/** Removes folders of closed epochs that hold no blob, oldest first, after the file that fences the epochs in their place (I11, I12). */
export class EpochSweep {
  readonly #options: EpochSweepOptions;
  /** What is left of the last listing: folders that were looked at wait until all were. */
  #queue: EpochFolder[] = [];

  constructor(options: EpochSweepOptions) {
    this.#options = options;
  }

  /** Looks at EPOCHS_SWEPT_MAX folders at most. Every epoch below `below` is closed, or was never used. */
  async run(below: number): Promise<void> {
    const { log } = this.#options;
    if (this.#queue.length === 0) this.#queue = [...(await this.#list(below))];
    for (const folder of this.#queue.splice(0, EPOCHS_SWEPT_MAX)) {
      try {
        await this.#sweep(folder);
      } catch (thrown) {
        log.warn("the folder of a closed epoch stays for now", { path: folder.path, error: String(thrown) });
      }
    }
  }

  /**
   * The fence is durable before any folder goes (I11). A folder that is open is closed first: the rename fences what its writer has begun. So
   * was one whose row was closed by a process that ended there.
   */
  async #list(below: number): Promise<readonly EpochFolder[]> {
    const { folders } = this.#options;
    const listed = await folders.listFolders();
    const closed = new Set(listed.flatMap(({ epoch, closed: isClosed }) => (isClosed ? [epoch] : [])));
    const known = await folders.closedBelow();
    const open = listed.filter((folder) => !folder.closed && folder.epoch >= known && folder.epoch < below && !closed.has(folder.epoch));
    for (const { epoch } of open.slice(0, EPOCHS_SWEPT_MAX)) await folders.close(epoch);
    const to = open[EPOCHS_SWEPT_MAX]?.epoch ?? below;
    if (!listed.some(({ epoch }) => epoch < Math.max(to, known))) return [];
    const floor = await folders.raiseClosedBelow(to);
    // Those that were closed just now have another path: the next listing has it.
    return listed.filter((folder) => folder.epoch < floor && !open.includes(folder));
  }

  async #sweep({ path }: EpochFolder): Promise<void> {
    const { disk, folders, failpoint } = this.#options;
    const empty = await this.#emptyOrNot(path);
    if (empty === undefined) return;
    for (const { name, generation } of empty.packed) if (!(await this.#acquire(path, name, generation))) return;
    const left = await this.#emptyOrNot(path);
    if (left === undefined || left.packed.length !== empty.packed.length) return;
    // Removals of blobs and segments are durable before what records them goes, and before another process finds no folder to sync (I6).
    for (const name of [...left.groups, ...left.packed.map((packed) => packed.name)]) {
      const isGone = async (): Promise<boolean> => !(await disk.list(path)).some((entry) => entry.name === name);
      await folders.syncOrStop(`${path}/${name}`, isGone);
    }
    failpoint("epochs:folder-empty");
    // From here on the epoch is gone for every process, also after a power cut: the rest is space (I12).
    await disk.remove(`${path}/${MARK}`);
    await folders.syncOrStop(path, async () => (await disk.list(path)).length === 0);
    failpoint("epochs:mark-removed");
    for (const name of [...left.packed.map((packed) => packed.name), ...left.bounds]) {
      for (const entry of await disk.list(`${path}/${name}`)) await disk.remove(`${path}/${name}/${entry.name}`);
      await disk.remove(`${path}/${name}`);
    }
    failpoint("epochs:segments-removed");
    for (const name of left.groups) await disk.remove(`${path}/${name}`);
    await disk.remove(path);
    failpoint("epochs:folder-removed");
  }

  /** Undefined: a blob, a segment or something unknown is in it. */
  async #emptyOrNot(path: string): Promise<Empty | undefined> {
    const { disk } = this.#options;
    const groups: string[] = [];
    const bounds: string[] = [];
    const packed: { name: string; generation: number }[] = [];
    for (const { name, kind } of await disk.list(path)) {
      if (name === MARK) continue;
      const generation = generationOf(name);
      if (kind !== "folder") return undefined;
      if (isGroup(name)) groups.push(name);
      else if (generation !== undefined) packed.push({ name, generation });
      else if (BOUNDS_NAME.test(name)) bounds.push(name);
      else return undefined;
    }
    for (const name of groups) if ((await disk.list(`${path}/${name}`)).length > 0) return undefined;
    for (const { name } of packed) if (!(await disk.list(`${path}/${name}`)).every((entry) => isOfNoBlob(entry.name))) return undefined;
    return { groups, bounds, packed };
  }

  /**
   * A compaction that renames a copy may hide it from a listing: with the right to the segments none runs. False: another process has it.
   */
  async #acquire(path: string, name: string, generation: number): Promise<boolean> {
    const { disk } = this.#options;
    if (generation + 1 >= SEGMENTS_MAX) throw new ConcordError("LIMIT_EXCEEDED", `${path} was compacted too often`, { applied: "no" });
    return await disk.rename(`${path}/${name}`, `${path}/${packedName(generation + 1)}`);
  }
}

const isOfNoBlob = (name: string): boolean => isRemovals(name) || isDraft(name) || indexedSegmentOf(name) !== undefined;

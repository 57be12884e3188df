import { ConcordError, Rounds, type Checksum, type Disk, type DiskFile } from "@concord/runtime";
import type { EpochFolders } from "./epoch-folders.ts";
import { REFRESH_ATTEMPTS_MAX, SEGMENTS_MAX } from "./limits.ts";
import { encodeRemoval, REMOVAL_BYTES } from "./needle-format.ts";
import { removalsName } from "./segment-file.ts";

export interface RemovalLogOptions {
  readonly disk: Disk;
  readonly folders: EpochFolders;
  readonly epoch: number;
  readonly checksum: Checksum;
  readonly failpoint: (name: string) => void;
}

/** Removals of one epoch's needles by this process, in a file of its own beside the segments. The file moves with them. */
export class RemovalLog {
  readonly #options: RemovalLogOptions;
  readonly #groups = new Rounds<number>((group) => this.#appendGroup(group));
  #file: DiskFile | undefined;
  #end = 0;

  constructor(options: RemovalLogOptions) {
    this.#options = options;
  }

  /** Durable. */
  append(sequence: number): Promise<void> {
    return this.#groups.join(sequence);
  }

  /** The caller removes nothing meanwhile; later removals go to a new file. */
  async close(): Promise<void> {
    const file = this.#file;
    this.#file = undefined;
    await file?.close();
  }

  async #appendGroup(group: readonly number[]): Promise<void> {
    const { epoch, checksum, failpoint } = this.#options;
    const file = (this.#file ??= await this.#make());
    // No segment is left of a closed epoch: none comes back.
    if (file === undefined) return;
    const records = group.map((sequence) => encodeRemoval(epoch, sequence, checksum));
    try {
      await file.write(this.#end, records);
      failpoint("segment:removal-appended");
      await file.sync();
    } catch (thrown) {
      // As for a segment: never written or synced again (I5).
      this.#file = undefined;
      await file.close().catch(() => undefined);
      throw thrown;
    }
    this.#end += records.length * REMOVAL_BYTES;
    failpoint("segment:removal-synced");
  }

  /** Its name is durable before the first record. The folder may move meanwhile. Undefined: the epoch's folder is gone (I12). */
  async #make(): Promise<DiskFile | undefined> {
    for (let attempt = 0; attempt < REFRESH_ATTEMPTS_MAX; attempt += 1) {
      const place = await this.#options.folders.locatePacked(this.#options.epoch);
      if (place === undefined) break;
      const file = await this.#makeIn(place.path).catch(async (thrown: unknown) => {
        if ((await this.#options.folders.locatePacked(this.#options.epoch))?.path === place.path) throw thrown;
        return undefined;
      });
      if (file === undefined) continue;
      this.#end = 0;
      return file;
    }
    if (await this.#options.folders.isGone(this.#options.epoch)) return undefined;
    throw new ConcordError("STORE_FAILED", `the segments of epoch ${this.#options.epoch} keep moving`, { applied: "no" });
  }

  async #makeIn(folder: string): Promise<DiskFile> {
    const { disk, folders, epoch } = this.#options;
    for (let ordinal = 0; ordinal < SEGMENTS_MAX; ordinal += 1) {
      const file = await disk.create(`${folder}/${removalsName(ordinal)}`);
      if (file === "exists") continue;
      try {
        await folders.syncPacked(epoch, folder);
        return file;
      } catch (thrown) {
        await file.close();
        throw thrown;
      }
    }
    throw new ConcordError("LIMIT_EXCEEDED", `${folder} has ${SEGMENTS_MAX} files of removals`);
  }
}

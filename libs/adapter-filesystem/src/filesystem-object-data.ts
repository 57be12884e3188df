import { corrupt } from "@concord/codec";
import { parseOid, type ObjectData, type Oid, type OidRange, type BlobDescription, type BlobState, type BlobWriter } from "@concord/ports";
import { assert, ConcordError, silentLog, type Checksum, type Disk, type DiskFile, type Log, type Random } from "@concord/runtime";
import type { CombineChecksums } from "./digest.ts";
import { EpochFolders } from "./epoch-folders.ts";
import { EpochSweep } from "./epoch-sweep.ts";
import { INDEXED_NEEDLES_MIN, PACK_BUFFER_BYTES_MAX, PACK_BYTES_MAX, SEGMENT_BYTES } from "./limits.ts";
import { PackedEpoch } from "./packed-epoch.ts";
import { PackBudget, PackingWriter } from "./packing-writer.ts";
import { ReadMemory } from "./read-memory.ts";
import { inspectBlob, readBlob } from "./blob-reader.ts";
import { FileBlobWriter } from "./blob-writer.ts";

export interface FilesystemOptions {
  /** Blobs are in its folder "pieces". Several gateways may share it. */
  readonly disk: Disk;
  readonly checksum: Checksum;
  /** Draws names that no other gateway of the folder uses. */
  readonly random: Random;
  /** Of `checksum`: it spares a second look at each byte that is written. */
  readonly combine?: CombineChecksums;
  readonly failpoint: (name: string) => void;
  /** Gets damage and failed compactions. */
  readonly log?: Log;
  /**
   * A folder's sync failed, and the epoch could not be closed or is not the writer's own: the process must end. When absent the folder
   * stays unused.
   */
  readonly onFailed?: (cause: ConcordError) => void;
  /** Blobs up to this length are packed into segments (OGD14); at most PACK_BYTES_MAX. 0, as when absent: each is a file of its own. */
  readonly packBytesMax?: number;
  /** PACK_BUFFER_BYTES_MAX if absent. */
  readonly packBufferBytesMax?: number;
  /** SEGMENT_BYTES if absent. */
  readonly segmentBytes?: number;
  /** Dead bytes of our open epoch that wait in segments that would have to be copied; as many as a segment's if absent. */
  readonly waitingDeadBytes?: number;
  /** INDEXED_NEEDLES_MIN if absent. */
  readonly indexedNeedlesMin?: number;
}

/** Stores long blobs as files of their own and packs short ones into segments. Reads both kinds, whatever `packBytesMax` is now. */
export class FilesystemObjectData implements ObjectData {
  readonly #options: FilesystemOptions;
  readonly #folders: EpochFolders;
  readonly #sweep: EpochSweep;
  readonly #packed = new Map<number, PackedEpoch>();
  readonly #budget: PackBudget;
  readonly #memory = new ReadMemory();
  readonly #packBytesMax: number;
  /** The last compaction of a closed epoch. */
  #compacting: Promise<void> = Promise.resolve();

  constructor(options: FilesystemOptions) {
    this.#options = options;
    this.#packBytesMax = options.packBytesMax ?? 0;
    assert(this.#packBytesMax >= 0 && this.#packBytesMax <= PACK_BYTES_MAX, `packBytesMax is at most ${PACK_BYTES_MAX}`);
    const { disk, checksum, random, failpoint, log = silentLog, onFailed = () => undefined } = options;
    this.#folders = new EpochFolders({ disk, checksum, random, failpoint, log, onFailed });
    this.#sweep = new EpochSweep({ disk, folders: this.#folders, failpoint, log });
    this.#budget = new PackBudget(options.packBufferBytesMax ?? PACK_BUFFER_BYTES_MAX);
  }

  async create(oid: Oid, description: BlobDescription): Promise<BlobWriter> {
    const { epoch: number, sequence } = parseOid(oid);
    const epoch = this.#epoch(number);
    const begun = await epoch.begin(sequence, description);
    if (begun === undefined) throw exists(oid);
    try {
      if (this.#packBytesMax > 0 && !this.#budget.isSpent) {
        await this.#assertFree(oid);
        const { checksum, combine, failpoint } = this.#options;
        const spill = (): Promise<BlobWriter> => this.#createFile(oid, description);
        const [packBytesMax, budget] = [this.#packBytesMax, this.#budget];
        return new PackingWriter({ oid, description, epoch, begun, packBytesMax, budget, checksum, combine, failpoint, spill });
      }
      const writer = await this.#createFile(oid, description);
      epoch.release(sequence);
      return writer;
    } catch (thrown) {
      epoch.release(sequence);
      throw thrown;
    }
  }

  async *read(oid: Oid, offset: number, lengthBytes: number): AsyncIterable<Uint8Array> {
    const file = await this.#open(oid);
    if (file === undefined) throw corrupt(`blob ${oid} is absent`);
    try {
      yield* readBlob(file, oid, { offset, lengthBytes }, { checksum: this.#options.checksum, memory: this.#memory });
    } finally {
      await file.close();
    }
  }

  async inspect(oid: Oid): Promise<BlobState> {
    const { epoch: number, sequence } = parseOid(oid);
    const epoch = this.#epoch(number);
    const begun = epoch.begun(sequence);
    if (begun !== undefined) return { kind: "open", description: begun.description };
    // Removals of other processes are seen here, and by `list`.
    await epoch.refresh();
    const file = await this.#open(oid);
    if (file === undefined) return { kind: "absent" };
    try {
      return await inspectBlob(file, oid, this.#options.checksum);
    } finally {
      await file.close();
    }
  }

  async remove(oid: Oid): Promise<boolean> {
    const { epoch, sequence } = parseOid(oid);
    if (await this.#epoch(epoch).remove(sequence)) return true;
    let removed = false;
    for (const place of this.#folders.places(oid)) removed ||= await this.#options.disk.remove(place);
    this.#options.failpoint("piece:removed");
    await this.#folders.settleRemoval(oid);
    return removed;
  }

  async list({ epoch, fromSequence, limit }: OidRange): Promise<readonly Oid[]> {
    const files = await this.#folders.list({ epoch, fromSequence, limit });
    const packed = this.#epoch(epoch);
    await packed.refresh();
    return [...new Set([...files, ...packed.list(fromSequence, limit)])].sort().slice(0, limit);
  }

  /** By the folders' names: no segment is read. Blobs that were begun in memory have no folder yet. */
  async epochs(): Promise<readonly number[]> {
    const begun = [...this.#packed].flatMap(([epoch, { hasBegun }]) => (hasBegun ? [epoch] : []));
    return [...new Set([...(await this.#folders.epochs()), ...begun])].sort((left, right) => left - right);
  }

  async closeEpoch(epoch: number): Promise<void> {
    await this.#folders.close(epoch);
    // From here on its segments are as long as they are.
    await this.#epoch(epoch).refresh();
  }

  /** One call after the other. */
  async releaseEpochs(below: number): Promise<void> {
    await this.#sweep.run(below);
  }

  /** Waits for background work on an epoch's segments. */
  compact(epoch: number): Promise<void> {
    return this.#epoch(epoch).compact();
  }

  /** Closes its files. The caller has ended every operation it began. */
  async close(): Promise<void> {
    await Promise.all([...this.#packed.values()].map((epoch) => epoch.close()));
  }

  async #createFile(oid: Oid, description: BlobDescription): Promise<BlobWriter> {
    const path = await this.#folders.ready(oid);
    const file = await this.#options.disk.create(path).catch((thrown: unknown) => this.#folders.explain(oid, thrown));
    if (file === "exists") throw exists(oid);
    this.#folders.made(parseOid(oid).epoch, path);
    this.#options.failpoint("piece:created");
    const { checksum, combine, failpoint } = this.#options;
    return new FileBlobWriter({ oid, description, file, checksum, combine, failpoint, settle: () => this.#folders.settle(oid) });
  }

  /** A file of its own has no such name, and the epoch is open: what `create` of a file tells by itself. */
  async #assertFree(oid: Oid): Promise<void> {
    const [opened, checked] = await Promise.allSettled([this.#openNew(oid), this.#folders.assertOpen(parseOid(oid).epoch)]);
    if (opened.status === "fulfilled") await opened.value?.close();
    if (opened.status === "rejected") throw opened.reason;
    if (checked.status === "rejected") throw checked.reason;
    if (opened.value !== undefined) throw exists(oid);
  }

  /** While the epoch is open its files lie in the first place only. */
  async #openNew(oid: Oid): Promise<DiskFile | undefined> {
    return (await this.#folders.mayHaveFile(oid)) ? await this.#options.disk.open(this.#folders.places(oid)[0]!) : undefined;
  }

  async #open(oid: Oid): Promise<DiskFile | undefined> {
    const { epoch: number, sequence } = parseOid(oid);
    const epoch = this.#epoch(number);
    if (epoch.begun(sequence) !== undefined) return undefined;
    if (!epoch.has(sequence)) {
      const file = await this.#openFile(oid);
      if (file !== undefined) return file;
      await epoch.refresh();
    }
    return await epoch.open(sequence);
  }

  async #openFile(oid: Oid): Promise<DiskFile | undefined> {
    for (const place of this.#folders.places(oid)) {
      const file = await this.#options.disk.open(place);
      if (file !== undefined) return file;
    }
    return undefined;
  }

  #epoch(epoch: number): PackedEpoch {
    let packed = this.#packed.get(epoch);
    if (packed === undefined) {
      const {
        disk,
        checksum,
        failpoint,
        log = silentLog,
        segmentBytes = SEGMENT_BYTES,
        waitingDeadBytes = segmentBytes,
        indexedNeedlesMin = INDEXED_NEEDLES_MIN,
      } = this.#options;
      const limits = { segmentBytes, waitingDeadBytes, indexedNeedlesMin };
      const inTurn = (work: () => Promise<void>): void => void (this.#compacting = this.#compacting.then(work));
      packed = new PackedEpoch({ disk, folders: this.#folders, epoch, checksum, failpoint, log, inTurn, ...limits });
      this.#packed.set(epoch, packed);
    }
    return packed;
  }
}

function exists(oid: Oid): ConcordError {
  return new ConcordError("PIECE_EXISTS", `data blob ${oid} exists already`);
}

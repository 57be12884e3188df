import { oidOf } from "@concord/ports";
import { assert, ConcordError, type Checksum, type Disk, type DiskFile, type Log } from "@concord/runtime";
import { packedPlace, type EpochFolders, type PackedPlace } from "./epoch-folders.ts";
import { ROOM_PER_WAITING_BYTE, SEGMENTS_MAX } from "./limits.ts";
import { encodePrefix, NEEDLE_PREFIX_BYTES } from "./needle-format.ts";
import type { NeedlePlace } from "./needle-index.ts";
import type { PackedView } from "./packed-view.ts";
import { inspectBlob, readBlob } from "./blob-reader.ts";
import { bytesFile, draftName, indexName, isDraft, segmentName } from "./segment-file.ts";

export interface CompactionOptions {
  readonly disk: Disk;
  readonly folders: EpochFolders;
  readonly epoch: number;
  readonly view: PackedView;
  readonly checksum: Checksum;
  readonly failpoint: (name: string) => void;
  readonly log: Log;
  /** So many dead bytes of our open epoch wait in segments that would have to be copied. */
  readonly waitingDeadBytes: number;
  /** The segment that is being written; undefined: none. */
  readonly current: () => number | undefined;
}

/** Where a live needle of the old segment is in the new one. */
type Copy = readonly [sequence: number, from: NeedlePlace, to: NeedlePlace];

/** "lost": another process has the right to the segments now. "kept": the segment has damage and stays. */
type CopyResult = "lost" | "kept" | { readonly target: number; readonly sizeBytes: number; readonly copies: readonly Copy[] };

/** A draft of a segment. */
interface Target {
  readonly number: number;
  readonly draft: string;
  readonly file: DiskFile;
}

/** Removes segments of which more than half is dead, after copying their live needles (I9). */
export class Compaction {
  readonly #options: CompactionOptions;
  /** Segments with a needle that is not whole: quarantined. */
  readonly #kept = new Set<number>();
  #running: Promise<void> | undefined;

  constructor(options: CompactionOptions) {
    this.#options = options;
  }

  /** Ends when nothing is left to do; never rejects. */
  run(): Promise<void> {
    this.#running ??= this.#run()
      .catch((thrown: unknown) =>
        this.#options.log.warn("segments could not be compacted", { epoch: this.#options.epoch, error: String(thrown) }),
      )
      .finally(() => (this.#running = undefined));
    return this.#running;
  }

  /** Resolves when none runs. */
  async settled(): Promise<void> {
    await this.#running;
  }

  async #run(): Promise<void> {
    const { view } = this.#options;
    if (this.#candidates().length === 0) return;
    if (view.place === undefined) await view.refresh();
    const place = await this.#acquire();
    if (place === undefined) return;
    await view.refresh();
    if (view.place?.path !== place.path) return;
    await this.#removeDrafts(place);
    for (const segment of await this.#due()) if (!(await this.#compact(place, segment))) return;
  }

  /**
   * What goes now, the deadest first. In the open epoch a copy waits while `waitingDeadBytes` are not exceeded: where objects are overwritten in
   * turn, nothing is alive soon in a segment that is half dead now, and a copy would be made for nothing. On a disk with little room nothing waits.
   */
  async #due(): Promise<readonly number[]> {
    const { view, waitingDeadBytes } = this.#options;
    const candidates = this.#candidates().map((segment) => {
      const liveBytes = view.index.liveBytes(segment);
      const deadBytes = (view.segments.get(segment)?.sizeBytes ?? 0) - liveBytes;
      assert(deadBytes >= 0, "a segment has no more alive than it is long");
      return { segment, liveBytes, deadBytes };
    });
    candidates.sort((left, right) => left.liveBytes * right.deadBytes - right.liveBytes * left.deadBytes);
    let waiting = candidates.reduce((sum, { liveBytes, deadBytes }) => sum + (liveBytes === 0 ? 0 : deadBytes), 0);
    const mayWait = view.place?.closed === true || waiting === 0 || (await this.#hasLittleRoom()) ? 0 : waitingDeadBytes;
    return candidates.flatMap(({ segment, liveBytes, deadBytes }) => {
      if (liveBytes === 0) return [segment];
      if (waiting <= mayWait) return [];
      waiting -= deadBytes;
      return [segment];
    });
  }

  /** What waits is at most a part of the room that is left. */
  async #hasLittleRoom(): Promise<boolean> {
    const { disk, waitingDeadBytes } = this.#options;
    const freeBytes = await disk.freeBytes().catch(() => 0);
    return freeBytes < waitingDeadBytes * ROOM_PER_WAITING_BYTE;
  }

  /** Segments belong to the writer while the epoch is open, and to the process that acquires the folder afterwards. */
  #candidates(): readonly number[] {
    const { view, current } = this.#options;
    const closed = view.place?.closed === true;
    return [...view.segments].flatMap(([segment, { sizeBytes, damagedBytes }]) => {
      const liveBytes = view.index.liveBytes(segment);
      const mine = closed || (view.isOwn(segment) && segment !== current());
      const worthIt = liveBytes === 0 || liveBytes * 2 < sizeBytes;
      return mine && worthIt && damagedBytes === 0 && !this.#kept.has(segment) ? [segment] : [];
    });
  }

  /**
   * The right to take segments away: in the open epoch its writer's, and the close ends it. In a closed epoch the folder is renamed; the
   * paths of the previous holder are then gone. Undefined: another process has the right now.
   */
  async #acquire(): Promise<PackedPlace | undefined> {
    const { disk, folders, view, epoch, failpoint } = this.#options;
    const { place } = view;
    if (place === undefined || !place.closed) return place;
    if (place.generation + 1 >= SEGMENTS_MAX) return undefined;
    const next = packedPlace(epoch, true, place.generation + 1);
    if (!(await disk.rename(place.path, next.path))) return undefined;
    failpoint("segment:claimed");
    // Durable before anything is made in it: a generation that came back after a power cut would give its numbers out again.
    await folders.syncOrStop(next.parent);
    return next;
  }

  /** False: the right is lost. */
  async #compact(place: PackedPlace, segment: number): Promise<boolean> {
    const { disk, view, failpoint } = this.#options;
    const live = [...view.index.inSegment(segment)];
    const made = live.length === 0 ? undefined : await this.#copyAll(place, segment, live);
    if (made === "lost") return false;
    if (made === "kept") return true;
    return await view.exclusively(async () => {
      // The copies are durable before the segment goes. Only the holder of the right finds the path.
      if (!(await disk.remove(`${place.path}/${segmentName(segment)}`))) return false;
      await disk.remove(`${place.path}/${indexName(segment)}`).catch(() => false);
      view.gone(segment);
      if (made !== undefined) view.grown(made.target, made.sizeBytes);
      for (const [sequence, from, to] of made?.copies ?? []) {
        const now = view.index.get(sequence);
        // Removed meanwhile: the copy is dead, too (I10).
        if (now?.segment === from.segment && now.offset === from.offset) view.index.set(sequence, to);
      }
      failpoint("segment:dropped");
      return true;
    });
  }

  async #copyAll(place: PackedPlace, segment: number, live: readonly (readonly [number, NeedlePlace])[]): Promise<CopyResult> {
    const { disk } = this.#options;
    const source = await disk.open(`${place.path}/${segmentName(segment)}`);
    if (source === undefined) return "lost";
    try {
      const target = await this.#makeTarget(place);
      try {
        return await this.#copyInto(place, segment, live, source, target);
      } catch (thrown) {
        // On a full disk the draft takes the space that the removal should free.
        await disk.remove(target.draft).catch(() => false);
        throw thrown;
      } finally {
        await target.file.close();
      }
    } finally {
      await source.close();
    }
  }

  async #copyInto(
    place: PackedPlace,
    segment: number,
    live: readonly (readonly [number, NeedlePlace])[],
    source: DiskFile,
    target: Target,
  ): Promise<CopyResult> {
    const { disk, folders, epoch, failpoint } = this.#options;
    const copies: Copy[] = [];
    let sizeBytes = 0;
    for (const [sequence, from] of live) {
      const bytes = await this.#wholeBlob(source, sequence, from);
      if (bytes === undefined) return await this.#keep(place, segment, target.draft);
      await this.#write(target.file, sizeBytes, sequence, bytes);
      copies.push([sequence, from, { segment: target.number, offset: sizeBytes + NEEDLE_PREFIX_BYTES, lengthBytes: bytes.length }]);
      sizeBytes += NEEDLE_PREFIX_BYTES + bytes.length;
    }
    failpoint("segment:compacted-copy-written");
    await target.file.sync();
    // A segment's name only now: a torn copy must never be the lower of two when its source is gone (I9).
    if (!(await disk.rename(target.draft, `${place.path}/${segmentName(target.number)}`))) return "lost";
    await folders.syncPacked(epoch, place.path);
    failpoint("segment:compacted-copy-synced");
    return { target: target.number, sizeBytes, copies };
  }

  async #keep(place: PackedPlace, segment: number, draft: string): Promise<"kept"> {
    const { disk, log } = this.#options;
    this.#kept.add(segment);
    log.warn("a segment stays: a blob in it is not whole", { path: `${place.path}/${segmentName(segment)}` });
    await disk.remove(draft);
    return "kept";
  }

  /** A draft of a segment whose number is higher than every one that may hold another copy; never a number that was used before. */
  async #makeTarget(place: PackedPlace): Promise<Target> {
    const { disk, view } = this.#options;
    for (let ordinal = 0; ordinal < SEGMENTS_MAX; ordinal += 1) {
      const number = place.closed ? place.generation * SEGMENTS_MAX + ordinal : view.newOwn();
      if (view.segments.has(number)) continue;
      const draft = `${place.path}/${draftName(number)}`;
      const file = await disk.create(draft);
      if (file !== "exists") return { number, draft, file };
    }
    throw new ConcordError("LIMIT_EXCEEDED", `${place.path} has too many segments`);
  }

  /** Those of compactions that failed or crashed: only the holder of the right makes them, and none is being made now. */
  async #removeDrafts({ path }: PackedPlace): Promise<void> {
    const { disk } = this.#options;
    for (const { name } of await disk.list(path)) if (isDraft(name)) await disk.remove(`${path}/${name}`);
  }

  async #write(file: DiskFile, offset: number, sequence: number, bytes: Uint8Array): Promise<void> {
    const { epoch, checksum } = this.#options;
    const prefix = { epoch, sequence, offset, groupOffset: 0, lengthBytes: bytes.length };
    await file.write(offset, [encodePrefix(prefix, checksum), bytes]);
  }

  /** Undefined: it is torn or damaged; a copy would hide that. */
  async #wholeBlob(source: DiskFile, sequence: number, { offset, lengthBytes }: NeedlePlace): Promise<Uint8Array | undefined> {
    const { epoch, checksum } = this.#options;
    const oid = oidOf(epoch, sequence);
    const bytes = await source.read(offset, lengthBytes);
    try {
      const state = await inspectBlob(bytesFile(bytes), oid, checksum);
      if (state.kind !== "sealed") return undefined;
      const range = { offset: 0, lengthBytes: state.sealed.lengthBytes };
      for await (const _ of readBlob(bytesFile(bytes), oid, range, { checksum }));
      return bytes;
    } catch (thrown) {
      if (thrown instanceof ConcordError && thrown.code === "CORRUPT_DATA") return undefined;
      throw thrown;
    }
  }
}

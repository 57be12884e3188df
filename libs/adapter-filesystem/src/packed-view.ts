import { ConcordError, Rounds, type Checksum, type Disk, type Log } from "@concord/runtime";
import { publishBounds, readBounds } from "./bounds.ts";
import type { EpochFolders, PackedPlace } from "./epoch-folders.ts";
import { INDEXED_NEEDLES_MIN, REFRESH_ATTEMPTS_MAX, SEGMENTS_MAX } from "./limits.ts";
import { decodeRemoval, REMOVAL_BYTES, type Bounds } from "./needle-format.ts";
import { NeedleIndex, SequenceSet } from "./needle-index.ts";
import { indexedSegmentOf, indexName, isRemovals, segmentName, segmentOf } from "./segment-file.ts";
import { readIndex, writeIndex } from "./segment-index.ts";
import { scanSegment } from "./segment-scan.ts";

export interface SegmentState {
  readonly sizeBytes: number;
  /** Where its scan continues. */
  readonly next: number;
  readonly damagedBytes: number;
}

interface View {
  readonly closed: boolean;
  readonly index: NeedleIndex;
  readonly removed: SequenceSet;
  readonly segments: Map<number, SegmentState>;
  /** Bytes read of each file of removals. */
  readonly removals: Map<string, number>;
  place: PackedPlace | undefined;
}

export interface PackedViewOptions {
  readonly disk: Disk;
  readonly folders: EpochFolders;
  readonly epoch: number;
  readonly checksum: Checksum;
  readonly failpoint: (name: string) => void;
  readonly log: Log;
  /** INDEXED_NEEDLES_MIN if absent. */
  readonly indexedNeedlesMin?: number;
}

/** An in-memory view of an epoch's segments: read from disk at first, updated by `refresh` with the writes of other processes. */
export class PackedView {
  readonly #options: PackedViewOptions;
  readonly #refreshing: Rounds;
  /** Segments that this process writes: known without being read, while the epoch is open. */
  readonly #own = new Set<number>();
  #exclusive: Promise<unknown> = Promise.resolve();
  #view: View = emptyView(false);
  #bounds: Bounds | undefined;
  #nextSegment = 0;

  constructor(options: PackedViewOptions) {
    this.#options = options;
    this.#refreshing = new Rounds(() => this.exclusively(() => this.#refresh()));
  }

  get index(): NeedleIndex {
    return this.#view.index;
  }

  get removed(): SequenceSet {
    return this.#view.removed;
  }

  /** As of the last refresh; undefined: the epoch has no segments. */
  get place(): PackedPlace | undefined {
    return this.#view.place;
  }

  get segments(): ReadonlyMap<number, SegmentState> {
    return this.#view.segments;
  }

  isOwn(segment: number): boolean {
    return !this.#view.closed && this.#own.has(segment);
  }

  refresh(): Promise<void> {
    return this.#refreshing.join();
  }

  /** Nothing else of this kind, and no refresh, runs at the same time. */
  exclusively<Answer>(act: () => Promise<Answer>): Promise<Answer> {
    const done = this.#exclusive.then(act);
    this.#exclusive = done.catch(() => undefined);
    return done;
  }

  /** A number that no segment of the open epoch had, and this process writes it. */
  newOwn(): number {
    const segment = this.#nextSegment;
    if (segment >= SEGMENTS_MAX) throw new ConcordError("LIMIT_EXCEEDED", `epoch ${this.#options.epoch} has ${SEGMENTS_MAX} segments`);
    this.#nextSegment += 1;
    this.#own.add(segment);
    return segment;
  }

  grown(segment: number, sizeBytes: number): void {
    this.#view.segments.set(segment, { sizeBytes, next: sizeBytes, damagedBytes: 0 });
  }

  gone(segment: number): void {
    this.#own.delete(segment);
    this.#view.segments.delete(segment);
  }

  async #refresh(): Promise<void> {
    for (let attempt = 0; attempt < REFRESH_ATTEMPTS_MAX; attempt += 1) if (await this.#tryRefresh()) return;
    throw new ConcordError("STORE_FAILED", `the segments of epoch ${this.#options.epoch} keep moving`, { applied: "no" });
  }

  /** False: they were moved meanwhile. */
  async #tryRefresh(): Promise<boolean> {
    const { disk, folders, epoch } = this.#options;
    const place = await folders.locatePacked(epoch);
    if (place === undefined) {
      // What was known of it lay in a folder that is gone, and so is every blob (I12).
      if (this.#view.place !== undefined && (await folders.isGone(epoch))) this.#view = emptyView(true);
      return true;
    }
    if (place.closed) {
      this.#bounds ??= await this.#readBounds(place);
      if (this.#bounds === undefined) return false;
    }
    const names = (await disk.list(place.path)).map(({ name }) => name);
    const listed = names.flatMap((name) => segmentOf(name) ?? []);
    const known = [...this.#view.segments.keys()];
    const same = this.#view.closed === place.closed && known.every((segment) => this.isOwn(segment) || listed.includes(segment));
    // What was seen in the open epoch may lie behind the bounds; where the needles of a vanished segment are is to be found out.
    if (!same) this.#own.clear();
    const view = same ? this.#view : emptyView(place.closed);
    for (const name of names.filter(isRemovals)) await this.#readRemovals(view, place, name);
    let whole = true;
    for (const segment of listed.sort((left, right) => left - right)) whole = (await this.#scan(view, place, segment)) && whole;
    const now = await folders.locatePacked(epoch);
    if (!whole || now?.path !== place.path) return false;
    if (place.closed) await this.#removeOrphans(place, names, new Set(listed));
    view.place = place;
    this.#view = view;
    return true;
  }

  /** Indexes of segments that are gone: a crash came between the two. An index is never needed, so each process may remove it. */
  async #removeOrphans(place: PackedPlace, names: readonly string[], segments: ReadonlySet<number>): Promise<void> {
    const { disk } = this.#options;
    for (const segment of names.flatMap((name) => indexedSegmentOf(name) ?? [])) {
      // On a disk that is read only it stays.
      if (!segments.has(segment)) await disk.remove(`${place.path}/${indexName(segment)}`).catch(() => false);
    }
  }

  /** Undefined: the folder was moved or removed meanwhile. */
  async #readBounds(place: PackedPlace): Promise<Bounds | undefined> {
    const { disk, folders, epoch, checksum, failpoint } = this.#options;
    const hasMoved = async (): Promise<boolean> => (await folders.locatePacked(epoch))?.path !== place.path;
    try {
      const bounds = (await readBounds(disk, place.parent, checksum)) ?? (await publishBounds(disk, folders, place, checksum, failpoint));
      // Durable before any decision depends on them, also when another process wrote them.
      await folders.syncOrStop(place.parent, hasMoved);
      return bounds;
    } catch (thrown) {
      if (await hasMoved()) return undefined;
      throw thrown;
    }
  }

  /** Removals are by name: they hold wherever a needle is copied to (I10). */
  async #readRemovals(view: View, place: PackedPlace, name: string): Promise<void> {
    const { disk, epoch, checksum, log } = this.#options;
    const from = view.removals.get(name) ?? 0;
    const file = await disk.open(`${place.path}/${name}`);
    if (file === undefined) return;
    try {
      const bytes = await file.read(from, Math.max(0, file.size - from));
      const whole = bytes.length - (bytes.length % REMOVAL_BYTES);
      let last = 0;
      for (let at = 0; at < whole; at += REMOVAL_BYTES) {
        const sequence = decodeRemoval(bytes.subarray(at, at + REMOVAL_BYTES), epoch, checksum);
        if (sequence === undefined) continue;
        if (last < at) log.error("removals of packed blobs are damaged", { file: `${place.path}/${name}`, offset: from + last });
        last = at + REMOVAL_BYTES;
        view.removed.add(sequence);
        view.index.delete(sequence);
      }
      view.removals.set(name, from + last);
    } finally {
      await file.close();
    }
  }

  async #scan(view: View, place: PackedPlace, segment: number): Promise<boolean> {
    const { disk, epoch, checksum, log } = this.#options;
    const known = view.segments.get(segment);
    // Those of a closed epoch do not change; our own are noted when they do.
    if (known !== undefined && (place.closed || this.isOwn(segment))) return true;
    if (!place.closed && this.#own.has(segment)) return true;
    const path = `${place.path}/${segmentName(segment)}`;
    const file = await disk.open(path);
    if (file === undefined) return false;
    try {
      const bound = segment < SEGMENTS_MAX ? (this.#bounds?.get(segment) ?? 0) : Number.POSITIVE_INFINITY;
      const end = place.closed ? Math.min(file.size, bound) : file.size;
      const indexed = { disk, folder: place.path, epoch, segment, checksum };
      const index = place.closed ? await readIndex(indexed, log) : undefined;
      const begun = index !== undefined && index.next <= end ? index : { next: known?.next ?? 0, needles: [] };
      const found = await scanSegment({ file, epoch, from: begun.next, end, checksum });
      if (found.damagedBytes > 0) log.error("a segment of packed blobs is damaged", { path, bytes: found.damagedBytes });
      const needles = [...begun.needles, ...found.needles];
      for (const { sequence, ...place } of needles) note(view, sequence, { segment, ...place });
      if (place.closed && found.damagedBytes === 0 && found.needles.length >= (this.#options.indexedNeedlesMin ?? INDEXED_NEEDLES_MIN)) {
        const whole = needles.filter(({ offset, lengthBytes }) => offset + lengthBytes <= found.next);
        await writeIndex(indexed, { next: found.next, needles: whole }, log);
      }
      view.segments.set(segment, { sizeBytes: end, next: found.next, damagedBytes: (known?.damagedBytes ?? 0) + found.damagedBytes });
      if (!place.closed) this.#nextSegment = Math.max(this.#nextSegment, segment + 1);
      return true;
    } finally {
      await file.close();
    }
  }
}

/** Of two copies the one in the lower segment: the other one is not whole until it is gone (I9). */
function note(view: View, sequence: number, place: { segment: number; offset: number; lengthBytes: number }): void {
  const known = view.index.get(sequence);
  if (view.removed.has(sequence) || (known !== undefined && known.segment < place.segment)) return;
  view.index.set(sequence, place);
}

function emptyView(closed: boolean): View {
  return {
    closed,
    index: new NeedleIndex(),
    removed: new SequenceSet(),
    segments: new Map(),
    removals: new Map(),
    place: undefined,
  };
}

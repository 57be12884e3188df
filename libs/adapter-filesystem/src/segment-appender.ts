import { Rounds, type Checksum, type Disk, type DiskFile } from "@concord/runtime";
import type { EpochFolders } from "./epoch-folders.ts";
import { encodePrefix, NEEDLE_PREFIX_BYTES } from "./needle-format.ts";
import type { PackedView } from "./packed-view.ts";
import { segmentName } from "./segment-file.ts";

/** A whole blob to be appended to a segment. */
export interface Needle {
  readonly sequence: number;
  readonly parts: readonly Uint8Array[];
  readonly lengthBytes: number;
}

export interface SegmentAppenderOptions {
  readonly disk: Disk;
  readonly folders: EpochFolders;
  readonly epoch: number;
  readonly view: PackedView;
  readonly checksum: Checksum;
  readonly failpoint: (name: string) => void;
  readonly segmentBytes: number;
}

interface OpenSegment {
  readonly number: number;
  readonly folder: string;
  readonly file: DiskFile;
  /** Behind the last group that was synced. */
  end: number;
}

/** Appends needles of our epoch in groups: one write and one sync for all that arrived during the previous group. */
export class SegmentAppender {
  readonly #options: SegmentAppenderOptions;
  readonly #groups = new Rounds<Needle>((group) => this.#appendGroup(group));
  #segment: OpenSegment | undefined;

  constructor(options: SegmentAppenderOptions) {
    this.#options = options;
  }

  /** The segment that the next group goes to; undefined: a new one. */
  get current(): number | undefined {
    return this.#segment?.number;
  }

  /** It is durable and its epoch was open afterwards (I1, I3). EPOCH_FENCED, STORE_FAILED: it may be there, or a part of it. */
  append(needle: Needle): Promise<void> {
    return this.#groups.join(needle);
  }

  /** The caller appends nothing meanwhile; later needles go to a new segment. */
  async close(): Promise<void> {
    if (this.#segment !== undefined) await this.#retire(this.#segment);
  }

  async #appendGroup(group: readonly Needle[]): Promise<void> {
    const { folders, epoch, view, failpoint } = this.#options;
    const isNew = this.#segment === undefined;
    const segment = (this.#segment ??= await this.#make());
    const at = segment.end;
    const { parts, places, bytes } = this.#encode(group, segment);
    await this.#write(segment, at, parts);
    failpoint("segment:appended");
    try {
      // Durable before it is referred to (I1); a new segment's name with it.
      await Promise.all([segment.file.sync(), isNew ? folders.syncNew(epoch, segment.folder) : undefined]);
    } catch (thrown) {
      // The state on disk is unknown, and a later sync proves nothing (I5): the next group goes to another segment.
      await this.#retire(segment);
      return await folders.explainFolder(epoch, segment.folder, thrown);
    }
    segment.end = at + bytes;
    failpoint("segment:synced");
    try {
      await folders.assertOpen(epoch);
      view.grown(segment.number, segment.end);
      for (const [at, { sequence, lengthBytes }] of group.entries())
        if (!view.removed.has(sequence)) view.index.set(sequence, { segment: segment.number, offset: places[at]!, lengthBytes });
    } finally {
      // What gets nothing more may be compacted: by then its last group is known.
      if (segment.end >= this.#options.segmentBytes) await this.#retire(segment);
    }
  }

  #encode(group: readonly Needle[], segment: OpenSegment): { parts: Uint8Array[]; places: number[]; bytes: number } {
    const { epoch, checksum } = this.#options;
    const parts: Uint8Array[] = [];
    const places: number[] = [];
    let offset = segment.end;
    for (const { sequence, parts: own, lengthBytes } of group) {
      parts.push(encodePrefix({ epoch, sequence, offset, groupOffset: segment.end, lengthBytes }, checksum), ...own);
      places.push(offset + NEEDLE_PREFIX_BYTES);
      offset += NEEDLE_PREFIX_BYTES + lengthBytes;
    }
    return { parts, places, bytes: offset - segment.end };
  }

  /** A failed write is cut off again; when that fails, too, the segment gets nothing more. */
  async #write(segment: OpenSegment, at: number, parts: readonly Uint8Array[]): Promise<void> {
    try {
      await segment.file.write(at, parts);
    } catch (thrown) {
      await segment.file.truncate(at).catch(() => this.#retire(segment));
      // Its name is not durable yet: the next group makes another one.
      if (at === 0) await this.#retire(segment);
      throw thrown;
    }
  }

  /** In the folder that `readyPacked` made, so that it fails after the close (I2). */
  async #make(): Promise<OpenSegment> {
    const { disk, folders, epoch, view } = this.#options;
    const folder = await folders.readyPacked(epoch);
    for (;;) {
      const number = view.newOwn();
      const made = disk.create(`${folder}/${segmentName(number)}`);
      const file = await made.catch((thrown: unknown) => folders.explainFolder(epoch, folder, thrown));
      if (file === "exists") continue;
      folders.made(epoch, `${folder}/${segmentName(number)}`);
      return { number, folder, file, end: 0 };
    }
  }

  async #retire(segment: OpenSegment): Promise<void> {
    if (this.#segment === segment) this.#segment = undefined;
    await segment.file.close().catch(() => undefined);
  }
}

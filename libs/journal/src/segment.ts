import { assert, ConcordError, type Checksum, type Disk, type DiskFile } from "@concord/runtime";
import { encodeEndMark, END_MARK_BYTES, SEGMENT_HEADER_BYTES, type Frame, type SegmentHeader } from "./format.ts";
import { FrameReader, type FrameSource } from "./frame-reader.ts";
import { WINDOW_BYTES } from "./limits.ts";

const NAME_DIGITS = 16;
const NAME = /^(\d{16})\.journal$/;

export function segmentName(ordinal: number): string {
  return `${String(ordinal).padStart(NAME_DIGITS, "0")}.journal`;
}

/** The ordinal of a segment's file name; undefined for other files, quarantined ones among them. */
export function ordinalOf(name: string): number | undefined {
  const digits = NAME.exec(name)?.[1];
  return digits === undefined ? undefined : Number(digits);
}

export function inFolder(folder: string, name: string): string {
  return folder === "" ? name : `${folder}/${name}`;
}

/** A stretch of a segment that holds no sound frame; reported when the journal was opened. */
export interface Damage {
  readonly from: number;
  readonly to: number;
}

/** Where some of the frames begin, about one per window: a reader starts there instead of at the segment's first frame. */
export class SparseIndex {
  readonly offsets: number[] = [];
  readonly sequences: bigint[] = [];

  note(offset: number, sequence: bigint): void {
    const last = this.offsets.at(-1);
    if (last !== undefined && offset - last < WINDOW_BYTES) return;
    this.offsets.push(offset);
    this.sequences.push(sequence);
  }

  /** An offset at or before the first frame whose sequence is at least `sequence`, and before the one that holds it. */
  before(sequence: bigint): number {
    let low = 0;
    let high = this.sequences.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.sequences[middle]! < sequence) low = middle + 1;
      else high = middle;
    }
    return this.offsets[Math.max(0, low - 1)] ?? SEGMENT_HEADER_BYTES;
  }
}

/** One file of the journal. Its file is opened when needed and shared by its readers. */
export class Segment {
  readonly path: string;
  readonly header: SegmentHeader;
  /** One behind the last durable frame. */
  end: number;
  /** The file's size: a group that ends within it changes no size. */
  fileBytes: number;
  /** Sound segments have none. In order. */
  damage: readonly Damage[] = [];
  /** Undefined until a reader needs it; complete then. */
  index: SparseIndex | undefined;
  readonly #disk: Disk;
  readonly #checksum: Checksum;
  #file: Promise<DiskFile> | undefined;
  #readers = 0;
  #isDropped = false;

  constructor(disk: Disk, checksum: Checksum, path: string, header: SegmentHeader, end: number, file?: DiskFile) {
    this.#disk = disk;
    this.#checksum = checksum;
    this.path = path;
    this.header = header;
    this.#file = file === undefined ? undefined : Promise.resolve(file);
    this.end = end;
    this.fileBytes = file?.size ?? end;
  }

  /** What follows the last group. */
  get endMarkBytes(): number {
    return this.header.isPrepared ? END_MARK_BYTES : 0;
  }

  /** The end mark of a group that ends at `end`: parts of the same write. */
  endMark(end: number): readonly Uint8Array[] {
    return this.header.isPrepared ? [encodeEndMark(this.header.id, end, this.#checksum)] : [];
  }

  get isOpen(): boolean {
    return this.#file !== undefined;
  }

  get isIdle(): boolean {
    return this.#readers === 0;
  }

  /** The file for a reader, who gives it back with `release`. */
  async acquire(): Promise<FrameSource> {
    this.#readers += 1;
    try {
      return { file: await this.writable(), id: this.header.id, checksum: this.#checksum };
    } catch (thrown) {
      this.#readers -= 1;
      throw thrown;
    }
  }

  async release(): Promise<void> {
    this.#readers -= 1;
    assert(this.#readers >= 0, "a segment is released once per acquire");
    if (this.#isDropped && this.#readers === 0) await this.closeFile();
  }

  /** The file for the one writer. */
  writable(): Promise<DiskFile> {
    this.#file ??= this.#open();
    return this.#file;
  }

  /** The file is not needed any more: it is closed once its readers are done. */
  async drop(): Promise<void> {
    this.#isDropped = true;
    if (this.#readers === 0) await this.closeFile();
  }

  async closeFile(): Promise<void> {
    const file = this.#file;
    this.#file = undefined;
    await (await file)?.close();
  }

  async #open(): Promise<DiskFile> {
    try {
      const file = await this.#disk.open(this.path);
      if (file === undefined) throw new ConcordError("OFFSET_OUT_OF_RANGE", `journal segment ${this.path} was dropped meanwhile`);
      return file;
    } catch (thrown) {
      this.#file = undefined;
      throw thrown;
    }
  }
}

/** The sound frames between two offsets, in order, window by window. Damage that opening reported is passed over, other damage throws. */
export async function* framesOf(segment: Segment, source: FrameSource, from: number, to: number): AsyncGenerator<readonly Frame[]> {
  let start = from;
  for (;;) {
    const reader = new FrameReader(source, start, to);
    for (let frames = await reader.next(); frames.length > 0; frames = await reader.next()) yield frames;
    if (reader.position >= to) return;
    const known = segment.damage.find((damage) => damage.from === reader.position);
    if (known === undefined) {
      throw new ConcordError("CORRUPT_DATA", `journal segment ${segment.path} is damaged at ${reader.position}`);
    }
    start = known.to;
    if (start >= to) return;
  }
}

/** The segment's index, built by one pass over its frames when it is the first time. `end`: complete up to there. */
export async function indexOf(segment: Segment, source: FrameSource): Promise<SparseIndex> {
  if (segment.index !== undefined) return segment.index;
  const index = new SparseIndex();
  for await (const frames of framesOf(segment, source, SEGMENT_HEADER_BYTES, segment.end)) {
    for (const frame of frames) index.note(frame.offset, frame.sequence);
  }
  segment.index ??= index;
  return segment.index;
}

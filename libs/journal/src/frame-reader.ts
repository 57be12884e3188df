import type { Checksum, DiskFile } from "@concord/runtime";
import {
  encodeEndMark,
  END_MARK_BYTES,
  FRAME_HEADER_BYTES,
  FRAME_ID_AT,
  isFrameSound,
  peekFrame,
  SEGMENT_ID_BYTES,
  type Frame,
} from "./format.ts";
import { WINDOW_BYTES } from "./limits.ts";

/** Where frames are read from: an open segment and what its frames are checked with. */
export interface FrameSource {
  readonly file: DiskFile;
  readonly id: Uint8Array;
  readonly checksum: Checksum;
}

/** Reads frames one behind the other, a window at a time. */
export class FrameReader {
  readonly #source: FrameSource;
  readonly #to: number;
  #position: number;

  constructor(source: FrameSource, from: number, to: number) {
    this.#source = source;
    this.#position = from;
    this.#to = to;
  }

  /** Behind the last frame given out. */
  get position(): number {
    return this.#position;
  }

  /** Frames of the next window, at least one; none at the end, or at bytes that are no sound frame (`position` is before the end then). */
  async next(): Promise<readonly Frame[]> {
    if (this.#position >= this.#to) return [];
    const { file, id } = this.#source;
    const left = this.#to - this.#position;
    const bytes = await file.read(this.#position, Math.min(WINDOW_BYTES, left));
    const frames = this.#parse(bytes);
    if (frames.length > 0) return frames;
    const header = peekFrame(bytes, viewOf(bytes), 0, id);
    const length = header === undefined ? 0 : FRAME_HEADER_BYTES + header.length;
    if (length <= bytes.length || length > left) return [];
    return this.#parse(await file.read(this.#position, length));
  }

  #parse(bytes: Uint8Array): readonly Frame[] {
    const view = viewOf(bytes);
    const frames: Frame[] = [];
    const base = this.#position;
    for (let at = 0; ; at = this.#position - base) {
      const frame = frameAt(this.#source, bytes, view, at, base);
      if (frame === undefined) return frames;
      frames.push(frame);
      this.#position = frame.end;
    }
  }
}

/**
 * The next sound frame at or behind `from`, however many bytes lie before it: it distinguishes damage from a torn tail. Looks for the
 * segment's id, which every frame holds.
 */
export async function findFrame(source: FrameSource, from: number, to: number): Promise<Frame | undefined> {
  const { file, id } = source;
  for (let base = from; base + FRAME_HEADER_BYTES <= to; base += WINDOW_BYTES) {
    const window = await file.read(base, Math.min(WINDOW_BYTES + FRAME_HEADER_BYTES, to - base));
    for (let hit = idIn(window, id, FRAME_ID_AT); hit >= 0; hit = idIn(window, id, hit + 1)) {
      const frame = await frameFrom(source, base + hit - FRAME_ID_AT, to);
      if (frame !== undefined) return frame;
    }
  }
  return undefined;
}

/** Whether an end mark lies at `offset`. */
export async function hasEndMark({ file, id, checksum }: FrameSource, offset: number): Promise<boolean> {
  const expected = encodeEndMark(id, offset, checksum);
  const found = await file.read(offset, END_MARK_BYTES);
  return found.length === END_MARK_BYTES && expected.every((byte, at) => byte === found[at]);
}

/** One behind the last byte that is not zero; `from` when there is none. */
export async function endOfContent({ file }: FrameSource, from: number, to: number): Promise<number> {
  let end = from;
  for (let base = from; base < to; base += WINDOW_BYTES) {
    const window = await file.read(base, Math.min(WINDOW_BYTES, to - base));
    let length = window.length;
    while (length > 0 && window[length - 1] === 0) length -= 1;
    if (length > 0) end = base + length;
  }
  return end;
}

async function frameFrom(source: FrameSource, offset: number, to: number): Promise<Frame | undefined> {
  const head = await source.file.read(offset, FRAME_HEADER_BYTES);
  const header = peekFrame(head, viewOf(head), 0, source.id);
  if (header === undefined || offset + FRAME_HEADER_BYTES + header.length > to) return undefined;
  const bytes = await source.file.read(offset, FRAME_HEADER_BYTES + header.length);
  return frameAt(source, bytes, viewOf(bytes), 0, offset);
}

function frameAt(source: FrameSource, bytes: Uint8Array, view: DataView, at: number, base: number): Frame | undefined {
  const header = peekFrame(bytes, view, at, source.id);
  if (header === undefined) return undefined;
  const end = at + FRAME_HEADER_BYTES + header.length;
  if (end > bytes.length || !isFrameSound(bytes, view, at, header.length, source.checksum)) return undefined;
  const { kind, sequence, count, groupOffset } = header;
  const payload = bytes.subarray(at + FRAME_HEADER_BYTES, end);
  return { kind, sequence, count, payload, groupOffset, offset: base + at, end: base + end };
}

function idIn(bytes: Uint8Array, id: Uint8Array, from: number): number {
  for (let at = bytes.indexOf(id[0]!, from); at >= 0; at = bytes.indexOf(id[0]!, at + 1)) {
    let same = 1;
    while (same < SEGMENT_ID_BYTES && bytes[at + same] === id[same]) same += 1;
    if (same === SEGMENT_ID_BYTES) return at;
  }
  return -1;
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/*
 * LevelDB's manifest is a log of edits. The log: blocks of 32 KiB, each of fragments of records that no block's end divides: masked CRC32C of type and
 * data (4 bytes), length (2), type (1), data; little-endian. An edit: tags and their fields, numbers as varints.
 */
const BLOCK_BYTES = 32 * 1024;
const HEADER_BYTES = 7;
export const RECORD = { full: 1, first: 2, middle: 3, last: 4 } as const;
export const TAG = {
  comparator: 1,
  logNumber: 2,
  nextFileNumber: 3,
  lastSequence: 4,
  compactPointer: 5,
  deletedFile: 6,
  newFile: 7,
  previousLogNumber: 9,
} as const;

/** The bytes are not what LevelDB writes. */
export class Unreadable extends Error {}

/** A part of a record, or all of it. */
export interface Fragment {
  readonly type: number;
  readonly data: Buffer;
  /** The checksum as stored, and the bytes it is of. */
  readonly maskedCrc: number;
  readonly summed: Buffer;
  /** Start of the next fragment in the log. */
  readonly end: number;
}

/** Whole fragments of `bytes`, which begin at `position` of the log, between two fragments. Ends where one is cut off. */
export function* fragmentsOf(bytes: Buffer, position = 0): Generator<Fragment> {
  for (let at = 0; ;) {
    const left = BLOCK_BYTES - ((position + at) % BLOCK_BYTES);
    if (left < HEADER_BYTES) {
      at += left;
      continue;
    }
    if (at + HEADER_BYTES > bytes.length) return;
    const dataBytes = bytes.readUInt16LE(at + 4);
    if (HEADER_BYTES + dataBytes > left) throw new Unreadable("a record goes over the end of its block");
    const [start, end] = [at, at + HEADER_BYTES + dataBytes];
    if (end > bytes.length) return;
    at = end;
    yield {
      type: bytes[start + 6]!,
      data: bytes.subarray(start + HEADER_BYTES, end),
      maskedCrc: bytes.readUInt32LE(start),
      summed: bytes.subarray(start + 6, end),
      end: position + end,
    };
  }
}

/** The fields of an edit, one behind the other. */
export class Fields {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length;
  }

  number(): number {
    let value = 0;
    for (let scale = 1; ; scale *= 0x80) {
      const byte = this.#bytes[this.#at++];
      if (byte === undefined) throw new Unreadable("an edit ends in a number");
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
    }
  }

  text(): Buffer {
    const bytes = this.number();
    this.#at += bytes;
    if (this.#at > this.#bytes.length) throw new Unreadable("an edit ends in a text");
    return this.#bytes.subarray(this.#at - bytes, this.#at);
  }

  skipText(): void {
    this.text();
  }
}

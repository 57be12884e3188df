import { open } from "node:fs/promises";

/*
 * A manifest: blocks of 32 KiB with fragments of records: a masked CRC32C (4 bytes), length (2, little-endian), type (1): whole, first, middle or
 * last. A record is an edit: tagged fields, of which the first ones are the comparator's name (1) and the number of the log that has what is
 * in no table yet (2). LevelDB writes the latter into every edit but the first one of a new database.
 */
const BLOCK_BYTES = 32 * 1024;
const HEADER_BYTES = 7;
const WHOLE = 1;
const FIRST = 2;
const COMPARATOR = 1;
const LOG_NUMBER = 2;

/** What a manifest says of the log, as far as it was read: later reads go on from there. */
export class ManifestLog {
  readonly #path: string;
  #at = 0;
  #number: number | undefined;

  constructor(path: string) {
    this.#path = path;
  }

  /** Number of the log that the newest edit names. */
  async number(): Promise<number | undefined> {
    const bytes = await this.#readOn();
    for (let at = 0; ;) {
      const left = BLOCK_BYTES - ((this.#at + at) % BLOCK_BYTES);
      const fragment = left < HEADER_BYTES ? undefined : fragmentAt(bytes, at);
      // No fragment begins in the last bytes of a block.
      if (fragment === undefined && (left >= HEADER_BYTES || at + left > bytes.length)) {
        this.#at += at;
        return this.#number;
      }
      if (fragment?.type === WHOLE || fragment?.type === FIRST) this.#number = logNumberOf(fragment.payload) ?? this.#number;
      at += fragment === undefined ? left : HEADER_BYTES + fragment.payload.length;
    }
  }

  async #readOn(): Promise<Buffer> {
    const file = await open(this.#path, "r");
    try {
      const bytes = Buffer.alloc(Math.max(0, (await file.stat()).size - this.#at));
      const { bytesRead } = await file.read(bytes, 0, bytes.length, this.#at);
      return bytes.subarray(0, bytesRead);
    } finally {
      await file.close();
    }
  }
}

/** Undefined: it is not there whole yet. */
function fragmentAt(bytes: Buffer, at: number): { readonly type: number; readonly payload: Buffer } | undefined {
  if (at + HEADER_BYTES > bytes.length) return undefined;
  const end = at + HEADER_BYTES + bytes.readUInt16LE(at + 4);
  return end > bytes.length ? undefined : { type: bytes[at + 6]!, payload: bytes.subarray(at + HEADER_BYTES, end) };
}

/** Undefined: the edit has none. */
function logNumberOf(edit: Buffer): number | undefined {
  const cursor = { at: 0 };
  let tag = varintAt(edit, cursor);
  if (tag === COMPARATOR) {
    cursor.at += varintAt(edit, cursor) ?? 0;
    tag = varintAt(edit, cursor);
  }
  return tag === LOG_NUMBER ? varintAt(edit, cursor) : undefined;
}

function varintAt(bytes: Buffer, cursor: { at: number }): number | undefined {
  let value = 0;
  for (let scale = 1; scale <= 2 ** 49; scale *= 0x80) {
    const byte = bytes[cursor.at];
    if (byte === undefined) return undefined;
    cursor.at += 1;
    value += (byte & 0x7f) * scale;
    if (byte < 0x80) return value;
  }
  return undefined;
}

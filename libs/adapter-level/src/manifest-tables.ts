import { crc32c } from "@concord/checksums";
import { isMaskOf } from "./masked-crc.ts";

/*
 * LevelDB's manifest is a log of edits. The log: blocks of 32 KiB, each of records that no block's end divides: masked CRC32C of type and data (4
 * bytes), length (2), type (1), data; little-endian. An edit: tags and their fields, numbers as varints.
 */
const BLOCK_BYTES = 32 * 1024;
const HEADER_BYTES = 7;
const RECORD = { full: 1, first: 2, middle: 3, last: 4 } as const;
const TAG = {
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
class Unreadable extends Error {}

/**
 * Numbers of the tables that the store is made of, as LevelDB reads them when it opens; a record that a crash cut off at the end does not count.
 * Undefined: something else in it is not what LevelDB writes.
 */
export function tablesOf(manifest: Uint8Array): ReadonlySet<number> | undefined {
  // A table moves to another level by one edit that removes and adds it.
  const levels = new Map<string, number>();
  try {
    for (const edit of recordsOf(Buffer.from(manifest.buffer, manifest.byteOffset, manifest.length))) apply(edit, levels);
  } catch (thrown) {
    if (thrown instanceof Unreadable) return undefined;
    throw thrown;
  }
  return new Set(levels.values());
}

function* recordsOf(log: Buffer): Generator<Buffer> {
  let parts: Buffer[] | undefined;
  for (let at = 0; ;) {
    const blockEnd = at - (at % BLOCK_BYTES) + BLOCK_BYTES;
    if (blockEnd - at < HEADER_BYTES) {
      at = blockEnd;
      continue;
    }
    const end = at + HEADER_BYTES + (at + HEADER_BYTES <= log.length ? log.readUInt16LE(at + 4) : 0);
    if (end > blockEnd) throw new Unreadable("a record goes over the end of its block");
    // The writer ended in the middle of it.
    if (end > log.length) return;
    const type = log[at + 6]!;
    if (!isMaskOf(log.readUInt32LE(at), crc32c(log.subarray(at + 6, end)))) throw new Unreadable("a record has another checksum");
    const data = log.subarray(at + HEADER_BYTES, end);
    at = end;
    if ((type === RECORD.full || type === RECORD.first) !== (parts === undefined))
      throw new Unreadable("a record has no end, or no beginning");
    parts = [...(parts ?? []), data];
    if (type === RECORD.first || type === RECORD.middle) continue;
    if (type !== RECORD.full && type !== RECORD.last) throw new Unreadable("a record has another type");
    yield Buffer.concat(parts);
    parts = undefined;
  }
}

function apply(edit: Buffer, levels: Map<string, number>): void {
  const fields = new Fields(edit);
  const added: [string, number][] = [];
  while (!fields.isAtEnd) {
    const tag = fields.number();
    switch (tag) {
      case TAG.comparator:
        fields.skipText();
        break;
      case TAG.logNumber:
      case TAG.previousLogNumber:
      case TAG.nextFileNumber:
      case TAG.lastSequence:
        fields.number();
        break;
      case TAG.compactPointer:
        fields.number();
        fields.skipText();
        break;
      case TAG.deletedFile:
        levels.delete(`${fields.number()}/${fields.number()}`);
        break;
      case TAG.newFile: {
        const [level, table] = [fields.number(), fields.number()];
        fields.number();
        fields.skipText();
        fields.skipText();
        added.push([`${level}/${table}`, table]);
        break;
      }
      default:
        throw new Unreadable(`an edit has the tag ${tag}`);
    }
  }
  for (const [at, table] of added) levels.set(at, table);
}

class Fields {
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

  skipText(): void {
    const bytes = this.number();
    this.#at += bytes;
    if (this.#at > this.#bytes.length) throw new Unreadable("an edit ends in a text");
  }
}

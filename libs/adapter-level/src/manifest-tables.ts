import { crc32c } from "@concord/checksums";
import { Fields, fragmentsOf, RECORD, TAG, Unreadable } from "./manifest-format.ts";
import { isMaskOf } from "./masked-crc.ts";

/** A table as its manifest lists it. Keys are LevelDB's own: a sequence and a kind are behind each. */
export interface ListedTable {
  readonly number: number;
  readonly bytes: number;
  readonly smallest: Buffer;
  readonly largest: Buffer;
}

/** Tables by their numbers. */
export type ListedTables = ReadonlyMap<number, ListedTable>;

/**
 * The tables that the store is made of, as LevelDB reads them when it opens; a record that a crash cut off at the end does not count.
 * Undefined: something else in it is not what LevelDB writes.
 */
export function tablesOf(manifest: Uint8Array): ListedTables | undefined {
  // A table moves to another level by one edit that removes and adds it.
  const levels = new Map<string, ListedTable>();
  try {
    for (const edit of recordsOf(Buffer.from(manifest.buffer, manifest.byteOffset, manifest.length))) apply(edit, levels);
  } catch (thrown) {
    if (thrown instanceof Unreadable) return undefined;
    throw thrown;
  }
  return new Map([...levels.values()].map((table) => [table.number, table]));
}

function* recordsOf(log: Buffer): Generator<Buffer> {
  let parts: Buffer[] | undefined;
  for (const { type, data, maskedCrc, summed } of fragmentsOf(log)) {
    if (!isMaskOf(maskedCrc, crc32c(summed))) throw new Unreadable("a record has another checksum");
    if ((type === RECORD.full || type === RECORD.first) !== (parts === undefined))
      throw new Unreadable("a record has no end, or no beginning");
    parts = [...(parts ?? []), data];
    if (type === RECORD.first || type === RECORD.middle) continue;
    if (type !== RECORD.full && type !== RECORD.last) throw new Unreadable("a record has another type");
    yield Buffer.concat(parts);
    parts = undefined;
  }
}

function apply(edit: Buffer, levels: Map<string, ListedTable>): void {
  const fields = new Fields(edit);
  const added: [string, ListedTable][] = [];
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
        const [level, number, bytes] = [fields.number(), fields.number(), fields.number()];
        const [smallest, largest] = [fields.text(), fields.text()];
        added.push([`${level}/${number}`, { number, bytes, smallest, largest }]);
        break;
      }
      default:
        throw new Unreadable(`an edit has the tag ${tag}`);
    }
  }
  for (const [at, table] of added) levels.set(at, table);
}

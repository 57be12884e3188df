import { ByteWriter, corrupt, type ByteReader } from "@concord/codec";
import type { CellOf, CellType, CellValue } from "./model.ts";
import { CELL_TYPES, TABLE } from "./table.ts";

/** In the place of a type's tag; never a tag. */
const NULL_TAG = 9;

interface Readers {
  readonly key: (reader: ByteReader) => CellValue;
  readonly cell: (reader: ByteReader) => CellValue;
}

/** By tag. */
const READERS: readonly (Readers | undefined)[] = readersByTag();

/** A value's bytes as in a stored key: equal values, equal bytes; ordered within a kind. Used for lock names too. */
export function encodeKeyValue(value: CellValue): Uint8Array {
  const writer = new ByteWriter(32);
  writeKeyValue(writer, value);
  return writer.finish();
}

export function writeKeyValue<Kind extends CellType>(writer: ByteWriter, { kind, value }: CellOf<Kind>): void {
  const type = TABLE[kind];
  writer.u8(type.tag);
  type.writeKey(writer, value);
}

/** CORRUPT_DATA for bytes that are no value. */
export function readKeyValue(reader: ByteReader): CellValue {
  return readersOf(reader.u8()).key(reader);
}

/** A cell's value; null is a tombstone. */
export function writeCellValue(writer: ByteWriter, value: CellValue | null): void {
  if (value === null) writer.u8(NULL_TAG);
  else writeCell(writer, value);
}

export function readCellValue(reader: ByteReader): CellValue | null {
  const tag = reader.u8();
  return tag === NULL_TAG ? null : readersOf(tag).cell(reader);
}

function writeCell<Kind extends CellType>(writer: ByteWriter, { kind, value }: CellOf<Kind>): void {
  const type = TABLE[kind];
  writer.u8(type.tag);
  type.writeCell(writer, value);
}

function readersOf(tag: number): Readers {
  const readers = READERS[tag];
  if (readers === undefined) throw corrupt(`value tag ${tag}`);
  return readers;
}

function readersByTag(): (Readers | undefined)[] {
  const readers: (Readers | undefined)[] = [];
  for (const kind of CELL_TYPES) readers[TABLE[kind].tag] = readersFor(kind);
  return readers;
}

function readersFor<Kind extends CellType>(kind: Kind): Readers {
  const { readKey, readCell } = TABLE[kind];
  return {
    key: (reader) => ({ kind, value: readKey(reader) }) as CellValue,
    cell: (reader) => ({ kind, value: readCell(reader) }) as CellValue,
  };
}

// Bytes of what several kinds of rows are made of.
import { corrupt, type ByteReader, type ByteWriter } from "@concord/codec";
import { assert } from "@concord/runtime";

export function writeTexts(writer: ByteWriter, texts: Readonly<Record<string, string>>): void {
  const entries = Object.entries(texts);
  writer.varint(entries.length);
  for (const [name, value] of entries) writer.text(name).text(value);
}

/** Built from entries, so that a name such as "__proto__" is a name like others. */
export function readTexts(reader: ByteReader): Record<string, string> {
  return Object.fromEntries(readList(reader, (): [string, string] => [reader.text(), reader.text()]));
}

export function writeOptional<Value>(
  writer: ByteWriter,
  value: Value | undefined,
  write: (writer: ByteWriter, value: Value) => void,
): ByteWriter {
  writer.u8(value === undefined ? 0 : 1);
  if (value !== undefined) write(writer, value);
  return writer;
}

export function readOptional<Value>(reader: ByteReader, read: (reader: ByteReader) => Value): Value | undefined {
  return reader.u8() === 0 ? undefined : read(reader);
}

export function readList<Value>(reader: ByteReader, read: () => Value): Value[] {
  const count = reader.varint();
  // A hostile count ends at the end of the bytes, not at the end of memory.
  const values: Value[] = [];
  for (let i = 0; i < count; i += 1) values.push(read());
  return values;
}

/** By its position. */
export function writeOneOf<Value>(writer: ByteWriter, values: readonly Value[], value: Value): ByteWriter {
  const position = values.indexOf(value);
  assert(position >= 0, "what is written can be read");
  return writer.u8(position);
}

export function readOneOf<Value>(reader: ByteReader, values: readonly Value[]): Value {
  const position = reader.u8();
  const value = values[position];
  if (value === undefined) throw corrupt(`an unknown choice ${position}`);
  return value;
}

// Version 1. Keys: kind, partition, the row's own key. Values: sealed records.
import { ByteReader, ByteWriter, openRecord, sealRecord, writeOrderedText } from "@concord/codec";
import type { MetadataRow } from "@concord/ports";
import type { Checksum } from "@concord/runtime";

const FORMAT_VERSION = 1;
const ROW_KIND = 0x01;
const COUNTER_KIND = 0x02;

/** Where a partition's rows begin. */
export function rowPrefix(partition: string): Uint8Array {
  return prefixOf(ROW_KIND, partition).finish();
}

export function counterKey(partition: string, key: Uint8Array): Uint8Array {
  return prefixOf(COUNTER_KIND, partition).raw(key).finish();
}

function prefixOf(kind: number, partition: string): ByteWriter {
  const writer = new ByteWriter().u8(kind);
  writeOrderedText(writer, partition);
  return writer;
}

export function joined(prefix: Uint8Array, key: Uint8Array): Uint8Array {
  const whole = new Uint8Array(prefix.length + key.length);
  whole.set(prefix);
  whole.set(key, prefix.length);
  return whole;
}

export function encodeRow({ version, value }: MetadataRow, checksum: Checksum): Uint8Array {
  const body = new ByteWriter(value.length + 16).i64(version.commit).i64(version.guid).raw(value);
  return sealRecord(FORMAT_VERSION, body, checksum);
}

/** CORRUPT_DATA. The value is a copy: `bytes` may be the store's own. */
export function decodeRow(key: Uint8Array, bytes: Uint8Array, checksum: Checksum): MetadataRow {
  const reader = new ByteReader(openRecord(bytes, FORMAT_VERSION, checksum).body);
  const version = { commit: reader.i64(), guid: reader.i64() };
  return { key, version, value: reader.raw(reader.remaining).slice() };
}

export function encodeCounters(counters: readonly bigint[], checksum: Checksum): Uint8Array {
  const writer = new ByteWriter().varint(counters.length);
  for (const counter of counters) writer.i64(counter);
  return sealRecord(FORMAT_VERSION, writer, checksum);
}

/** CORRUPT_DATA. Absent counters are none. */
export function decodeCounters(bytes: Uint8Array | undefined, checksum: Checksum): bigint[] {
  if (bytes === undefined) return [];
  const reader = new ByteReader(openRecord(bytes, FORMAT_VERSION, checksum).body);
  return Array.from({ length: reader.varint() }, () => reader.i64());
}

import { ByteReader, ByteWriter, corrupt, openRecord, readOrderedBytes, sealRecord, writeOrderedBytes } from "@concord/codec";
import type { LogEntry } from "@concord/ports";
import { epochOf, seqOf, type Checksum, type Seq } from "@concord/runtime";
import type { GroupHeader } from "./group-state.ts";

/**
 * The group log on disk, version 1. Header: 'g', group -> promise, applied watermark, ceiling. Entry: 'l', group, seq (8 bytes) -> epoch,
 * content. Each value is sealed with its checksum (TXR1). Golden bytes are tested.
 */
export const LOG_FORMAT_VERSION = 1;
const HEADER_NAMESPACE = 0x67;
const ENTRY_NAMESPACE = 0x6c;

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true });

export const HEADER_RANGE = { from: Uint8Array.of(HEADER_NAMESPACE), to: Uint8Array.of(HEADER_NAMESPACE + 1) };
export const ENTRY_RANGE = { from: Uint8Array.of(ENTRY_NAMESPACE), to: Uint8Array.of(ENTRY_NAMESPACE + 1) };

export function headerKey(group: string): Uint8Array {
  const writer = new ByteWriter(32).u8(HEADER_NAMESPACE);
  writeOrderedBytes(writer, encoder.encode(group));
  return writer.finish();
}

export function entryKey(group: string, seq: Seq): Uint8Array {
  const writer = new ByteWriter(40).u8(ENTRY_NAMESPACE);
  writeOrderedBytes(writer, encoder.encode(group));
  return writer.u64(seq).finish();
}

export function readHeaderKey(key: Uint8Array): string {
  const reader = new ByteReader(key);
  reader.u8();
  const group = decodeName(readOrderedBytes(reader));
  reader.end();
  return group;
}

export function readEntryKey(key: Uint8Array): { group: string; seq: Seq } {
  const reader = new ByteReader(key);
  reader.u8();
  const group = decodeName(readOrderedBytes(reader));
  const seq = seqOf(reader.u64());
  reader.end();
  return { group, seq };
}

export function encodeHeader(header: GroupHeader, checksum: Checksum): Uint8Array {
  const body = new ByteWriter(64)
    .u64(header.promisedEpoch)
    .text(header.owner)
    .u64(header.appliedSeq)
    .u64(header.appliedEpoch)
    .i64(header.timestampCeilingUs);
  return sealRecord(LOG_FORMAT_VERSION, body.finish(), checksum);
}

export function decodeHeader(bytes: Uint8Array, checksum: Checksum): GroupHeader {
  const reader = new ByteReader(openRecord(bytes, LOG_FORMAT_VERSION, checksum).body);
  const header: GroupHeader = {
    promisedEpoch: epochOf(reader.u64()),
    owner: reader.text(),
    appliedSeq: seqOf(reader.u64()),
    appliedEpoch: epochOf(reader.u64()),
    timestampCeilingUs: reader.timestampUs(),
  };
  reader.end();
  return header;
}

export function encodeEntry(entry: LogEntry, checksum: Checksum): Uint8Array {
  return sealRecord(LOG_FORMAT_VERSION, new ByteWriter(entry.bytes.length + 8).u64(entry.epoch).raw(entry.bytes).finish(), checksum);
}

export function decodeEntry(seq: Seq, bytes: Uint8Array, checksum: Checksum): LogEntry {
  const reader = new ByteReader(openRecord(bytes, LOG_FORMAT_VERSION, checksum).body);
  return { seq, epoch: epochOf(reader.u64()), bytes: reader.raw(reader.remaining).slice() };
}

function decodeName(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch {
    throw corrupt("a group's name is not UTF-8");
  }
}

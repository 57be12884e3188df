import { ByteReader, ByteWriter, corrupt, openRecord, readOrderedBytes, sealRecord, writeOrderedBytes } from "@concord/codec";
import type { LogEntry } from "@concord/ports";
import { assert, EPOCH_NONE, epochOf, SEQ_NONE, seqOf, type Checksum, type Seq } from "@concord/runtime";
import type { GroupHeader } from "./group-state.ts";

/**
 * The group log on disk, version 2. Header: 'g', group -> promise, applied watermark, ceiling, dropped watermark. Entry: 'l', group, seq
 * (8 bytes) -> epoch, length of content, content, rows. Each value is sealed with its checksum (TXR1). Golden bytes are tested. Version 1
 * had neither rows nor a dropped watermark: an entry went when it was applied.
 */
export const LOG_FORMAT_VERSION = 2;
const HEADER_NAMESPACE = 0x67;
export const ENTRY_NAMESPACE = 0x6c;

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

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
  assert(key[0] === HEADER_NAMESPACE, "a header is read from its namespace");
  const reader = new ByteReader(key);
  reader.u8();
  const group = decodeName(readOrderedBytes(reader));
  reader.end();
  return group;
}

export function readEntryKey(key: Uint8Array): { group: string; seq: Seq } {
  assert(key[0] === ENTRY_NAMESPACE, "an entry is read from its namespace");
  const reader = new ByteReader(key);
  reader.u8();
  const group = decodeName(readOrderedBytes(reader));
  const seq = seqOf(reader.u64());
  reader.end();
  return { group, seq };
}

export function encodeHeader(header: GroupHeader, checksum: Checksum): Uint8Array {
  assert(header.droppedSeq <= header.appliedSeq, "I9: only applied entries are dropped");
  const body = new ByteWriter(64)
    .u64(header.promisedEpoch)
    .text(header.owner)
    .u64(header.appliedSeq)
    .u64(header.appliedEpoch)
    .i64(header.timestampCeilingUs)
    .u64(header.droppedSeq);
  return sealRecord(LOG_FORMAT_VERSION, body, checksum);
}

export function decodeHeader(bytes: Uint8Array, checksum: Checksum): GroupHeader {
  const { version, body } = openRecord(bytes, LOG_FORMAT_VERSION, checksum);
  const reader = new ByteReader(body);
  const header = {
    promisedEpoch: epochOf(reader.u64()),
    owner: reader.text(),
    appliedSeq: seqOf(reader.u64()),
    appliedEpoch: epochOf(reader.u64()),
    timestampCeilingUs: reader.timestampUs(),
  };
  const droppedSeq = version === 1 ? header.appliedSeq : seqOf(reader.u64());
  reader.end();
  return { ...header, droppedSeq };
}

export function encodeEntry(entry: LogEntry, checksum: Checksum): Uint8Array {
  const { epoch, bytes, rows } = entry;
  assert(epoch > EPOCH_NONE && entry.seq > SEQ_NONE && bytes.length > 0, "an entry has a place, an owner's epoch and content");
  const writer = new ByteWriter(bytes.length + rows.length + 13);
  return sealRecord(LOG_FORMAT_VERSION, writer.u64(epoch).bytes(bytes).raw(rows), checksum);
}

export function decodeEntry(seq: Seq, value: Uint8Array, checksum: Checksum): LogEntry {
  const { version, body } = openRecord(value, LOG_FORMAT_VERSION, checksum);
  const reader = new ByteReader(body);
  const epoch = epochOf(reader.u64());
  const bytes = (version === 1 ? reader.raw(reader.remaining) : reader.bytes()).slice();
  return { seq, epoch, bytes, rows: reader.raw(reader.remaining).slice() };
}

function decodeName(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch {
    throw corrupt("a group's name is not UTF-8");
  }
}

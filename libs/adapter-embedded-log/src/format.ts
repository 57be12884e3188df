import { ByteReader, ByteWriter, corrupt } from "@concord/codec";
import type { LogMessage, MessageHeader, NewMessage } from "@concord/ports";

/*
 * Payloads of journal records, versions 1 and 2 (big-endian, lengths and counts as LEB128).
 *
 * message: content key | content value | count, then text name and content value of each header | f64 timestamp in ms
 * content in version 1: bytes; an empty key stands for none, null is not there otherwise
 * content in version 2: 0 = null, or length + 1, then the bytes
 * input, dead letters: u8 version | u8 1 = with an origin | [u32 partition | u64 publication] | count, messages
 * output: u8 version | u64 publication | u64 acknowledged input | f64 written at ms | count, messages
 *   | u8 1 = more | [count, dead letters | count, then u32 partition, u64 its input's end, count, messages of each target]
 */
const PLAIN = 1;
const WITH_NULLS = 2;
type Version = typeof PLAIN | typeof WITH_NULLS;

/** The publication from which messages in another journal come: written once, however often it is tried (I3). */
export interface Origin {
  readonly partition: number;
  readonly publication: bigint;
}

export interface MessageRecord {
  readonly origin: Origin | undefined;
  readonly messages: readonly LogMessage[];
}

/** Messages for another partition's input, and that input's end when the publication was written. */
export interface Rerouted {
  readonly partition: number;
  readonly inputEnd: bigint;
  readonly messages: readonly NewMessage[];
}

/** All of one publication: one record, so all of it or nothing (I1). */
export interface PublicationRecord {
  /** Numbers a partition's publications, from 1. */
  readonly publication: bigint;
  readonly acknowledgedInput: bigint;
  readonly writtenAtMs: number;
  readonly output: readonly NewMessage[];
  readonly deadLetters: readonly NewMessage[];
  readonly rerouted: readonly Rerouted[];
}

export function encodeMessages(messages: readonly NewMessage[], origin?: Origin): Uint8Array {
  const version = versionFor(messages);
  const writer = new ByteWriter().u8(version).u8(origin === undefined ? 0 : 1);
  if (origin !== undefined) writer.u32(origin.partition).u64(origin.publication);
  writeMessages(writer, messages, version);
  return writer.finish();
}

/** `offset`: that of the first message. */
export function decodeMessages(payload: Uint8Array, offset: bigint): MessageRecord {
  const { reader, version } = readerOf(payload);
  const origin = reader.u8() === 1 ? { partition: reader.u32(), publication: reader.u64() } : undefined;
  const messages = readMessages(reader, offset, version);
  reader.end();
  return { origin, messages };
}

export function encodePublication(record: PublicationRecord): Uint8Array {
  const { publication, acknowledgedInput, writtenAtMs, output, deadLetters, rerouted } = record;
  const version = versionFor(output, deadLetters, ...rerouted.map(({ messages }) => messages));
  const writer = new ByteWriter().u8(version).u64(publication).u64(acknowledgedInput).f64(writtenAtMs);
  writeMessages(writer, output, version);
  if (deadLetters.length === 0 && rerouted.length === 0) return writer.u8(0).finish();
  writeMessages(writer.u8(1), deadLetters, version);
  writer.varint(rerouted.length);
  for (const { partition, inputEnd, messages } of rerouted) writeMessages(writer.u32(partition).u64(inputEnd), messages, version);
  return writer.finish();
}

export function decodePublication(payload: Uint8Array, offset: bigint): PublicationRecord & { readonly output: readonly LogMessage[] } {
  const { reader, version } = readerOf(payload);
  const head = { publication: reader.u64(), acknowledgedInput: reader.u64(), writtenAtMs: reader.f64() };
  const output = readMessages(reader, offset, version);
  const hasMore = reader.u8() === 1;
  const deadLetters = hasMore ? readMessages(reader, 0n, version) : [];
  const targets = hasMore ? reader.varint() : 0;
  const rerouted: Rerouted[] = [];
  for (let at = 0; at < targets; at += 1) {
    rerouted.push({ partition: reader.u32(), inputEnd: reader.u64(), messages: readMessages(reader, 0n, version) });
  }
  reader.end();
  return { ...head, output, deadLetters, rerouted };
}

/** What limits of pages count. */
export function sizeOf({ key, value, headers }: NewMessage): number {
  let size = (key?.length ?? 0) + (value?.length ?? 0);
  for (const header of headers) size += header.name.length + (header.value?.length ?? 0);
  return size;
}

/** What a version before nulls reads is written as it was: the log of a worker that is set back to it stays readable. */
function versionFor(...lists: readonly (readonly NewMessage[])[]): Version {
  for (const messages of lists) {
    for (const { key, value, headers } of messages) {
      if (value === null || key?.length === 0) return WITH_NULLS;
      for (const header of headers) if (header.value === null) return WITH_NULLS;
    }
  }
  return PLAIN;
}

function readerOf(payload: Uint8Array): { readonly reader: ByteReader; readonly version: Version } {
  const reader = new ByteReader(payload);
  const version = reader.u8();
  if (version !== PLAIN && version !== WITH_NULLS) throw corrupt(`log record of version ${version}, known are ${PLAIN} and ${WITH_NULLS}`);
  return { reader, version };
}

function writeMessages(writer: ByteWriter, messages: readonly NewMessage[], version: Version): void {
  const write = version === PLAIN ? writePlain : writeNullable;
  writer.varint(messages.length);
  for (const { key, value, headers, timestampMs } of messages) {
    write(writer, key);
    write(writer, value);
    writer.varint(headers.length);
    for (const header of headers) write(writer.text(header.name), header.value);
    writer.f64(timestampMs);
  }
}

const NO_BYTES = new Uint8Array(0);

function writePlain(writer: ByteWriter, content: Uint8Array | null): void {
  writer.bytes(content ?? NO_BYTES);
}

function writeNullable(writer: ByteWriter, content: Uint8Array | null): void {
  if (content === null) writer.varint(0);
  else writer.varint(content.length + 1).raw(content);
}

function readNullable(reader: ByteReader): Uint8Array | null {
  const length = reader.varint();
  return length === 0 ? null : reader.raw(length - 1);
}

const readPlain = (reader: ByteReader): Uint8Array => reader.bytes();

function readPlainKey(reader: ByteReader): Uint8Array | null {
  const key = reader.bytes();
  return key.length === 0 ? null : key;
}

function readMessages(reader: ByteReader, offset: bigint, version: Version): LogMessage[] {
  const [readKey, read] = version === PLAIN ? [readPlainKey, readPlain] : [readNullable, readNullable];
  const count = reader.varint();
  const messages: LogMessage[] = [];
  for (let at = 0; at < count; at += 1) {
    const key = readKey(reader);
    const value = read(reader);
    const headers: MessageHeader[] = [];
    for (let left = reader.varint(); left > 0; left -= 1) headers.push({ name: reader.text(), value: read(reader) });
    messages.push({ offset: offset + BigInt(at), key, value, headers, timestampMs: reader.f64() });
  }
  return messages;
}

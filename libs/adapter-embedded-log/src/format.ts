import { ByteReader, ByteWriter, corrupt } from "@concord/codec";
import type { LogMessage, MessageHeader, NewMessage } from "@concord/ports";

/*
 * Payloads of journal records, version 1 (big-endian, lengths and counts as LEB128).
 *
 * message: bytes key | bytes value | count, then text name and bytes value of each header | f64 timestamp in ms
 * input, dead letters: u8 version | u8 1 = with an origin | [u32 partition | u64 publication] | count, messages
 * output: u8 version | u64 publication | u64 acknowledged input | f64 written at ms | count, messages
 *   | u8 1 = more | [count, dead letters | count, then u32 partition, u64 its input's end, count, messages of each target]
 */
const VERSION = 1;

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
  const writer = new ByteWriter().u8(VERSION).u8(origin === undefined ? 0 : 1);
  if (origin !== undefined) writer.u32(origin.partition).u64(origin.publication);
  writeMessages(writer, messages);
  return writer.finish();
}

/** `offset`: that of the first message. */
export function decodeMessages(payload: Uint8Array, offset: bigint): MessageRecord {
  const reader = readerOf(payload);
  const origin = reader.u8() === 1 ? { partition: reader.u32(), publication: reader.u64() } : undefined;
  const messages = readMessages(reader, offset);
  reader.end();
  return { origin, messages };
}

export function encodePublication(record: PublicationRecord): Uint8Array {
  const { publication, acknowledgedInput, writtenAtMs, output, deadLetters, rerouted } = record;
  const writer = new ByteWriter().u8(VERSION).u64(publication).u64(acknowledgedInput).f64(writtenAtMs);
  writeMessages(writer, output);
  if (deadLetters.length === 0 && rerouted.length === 0) return writer.u8(0).finish();
  writeMessages(writer.u8(1), deadLetters);
  writer.varint(rerouted.length);
  for (const { partition, inputEnd, messages } of rerouted) writeMessages(writer.u32(partition).u64(inputEnd), messages);
  return writer.finish();
}

export function decodePublication(payload: Uint8Array, offset: bigint): PublicationRecord & { readonly output: readonly LogMessage[] } {
  const reader = readerOf(payload);
  const head = { publication: reader.u64(), acknowledgedInput: reader.u64(), writtenAtMs: reader.f64() };
  const output = readMessages(reader, offset);
  const hasMore = reader.u8() === 1;
  const deadLetters = hasMore ? readMessages(reader, 0n) : [];
  const targets = hasMore ? reader.varint() : 0;
  const rerouted: Rerouted[] = [];
  for (let at = 0; at < targets; at += 1) {
    rerouted.push({ partition: reader.u32(), inputEnd: reader.u64(), messages: readMessages(reader, 0n) });
  }
  reader.end();
  return { ...head, output, deadLetters, rerouted };
}

/** What limits of pages count. */
export function sizeOf({ key, value, headers }: NewMessage): number {
  let size = key.length + value.length;
  for (const header of headers) size += header.name.length + header.value.length;
  return size;
}

function readerOf(payload: Uint8Array): ByteReader {
  const reader = new ByteReader(payload);
  const version = reader.u8();
  if (version !== VERSION) throw corrupt(`log record of version ${version}, known is ${VERSION}`);
  return reader;
}

function writeMessages(writer: ByteWriter, messages: readonly NewMessage[]): void {
  writer.varint(messages.length);
  for (const { key, value, headers, timestampMs } of messages) {
    writer.bytes(key).bytes(value).varint(headers.length);
    for (const header of headers) writer.text(header.name).bytes(header.value);
    writer.f64(timestampMs);
  }
}

function readMessages(reader: ByteReader, offset: bigint): LogMessage[] {
  const count = reader.varint();
  const messages: LogMessage[] = [];
  for (let at = 0; at < count; at += 1) {
    const key = reader.bytes();
    const value = reader.bytes();
    const headers: MessageHeader[] = [];
    for (let left = reader.varint(); left > 0; left -= 1) headers.push({ name: reader.text(), value: reader.bytes() });
    messages.push({ offset: offset + BigInt(at), key, value, headers, timestampMs: reader.f64() });
  }
  return messages;
}

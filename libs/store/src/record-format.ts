import { ByteReader, ByteWriter, corrupt } from "@concord/codec";
import type { KeyValueOperation } from "@concord/ports";

/*
 * Payload of a journal record, version 1, big-endian; the journal has the checksum:
 *   0 u8 version | 1 u8 kind | 2 u64 acknowledged: every record below this sequence had been answered when this one was handed over
 *   kind 1, a batch: operations, to the end: u8 1 put / 2 delete | varint key length | key | put: u32 value length | value
 *   kind 2, an intent: u64 number of the checkpoint | entries, to the end: varint key length | key | image before | image after
 *   an image: u8 0 absent / 1 present | u32 image - 1 when it is present
 */
const FORMAT_VERSION = 1;
const BATCH = 1;
const INTENT = 2;
const PUT = 1;
const DELETE = 2;
const ACKNOWLEDGED_AT = 2;
const HEADER_BYTES = 10;
const INTENT_HEADER_BYTES = HEADER_BYTES + 8;
const IMAGE_BYTES_MAX = 5;

/** What one checkpoint is going to do to one key of the backing store. */
export interface IntentEntry {
  readonly key: Uint8Array;
  readonly before: number;
  readonly after: number;
}

export type StoreRecord =
  | { readonly kind: "batch"; readonly acknowledged: bigint; readonly operations: readonly KeyValueOperation[] }
  | { readonly kind: "intent"; readonly acknowledged: bigint; readonly number: bigint; readonly entries: readonly IntentEntry[] };

/** A batch's record, `acknowledged` left open; the operations in it are views of it: the caller may change its buffers. */
export function encodeBatch(operations: readonly KeyValueOperation[]): { payload: Uint8Array; operations: KeyValueOperation[] } {
  const payload = new Uint8Array(batchBytes(operations));
  const view = new DataView(payload.buffer);
  payload[0] = FORMAT_VERSION;
  payload[1] = BATCH;
  let at = HEADER_BYTES;
  const copies = operations.map((operation): KeyValueOperation => {
    payload[at] = operation.kind === "put" ? PUT : DELETE;
    at = writeVarint(payload, at + 1, operation.key.length);
    payload.set(operation.key, at);
    const key = payload.subarray(at, (at += operation.key.length));
    if (operation.kind === "delete") return { kind: "delete", key };
    view.setUint32(at, operation.value.length);
    at += 4;
    payload.set(operation.value, at);
    return { kind: "put", key, value: payload.subarray(at, (at += operation.value.length)) };
  });
  return { payload, operations: copies };
}

/** As few records as hold the entries in order, none over a limit; an entry that is longer by itself is a record by itself. */
export function encodeIntents(
  number: bigint,
  entries: readonly IntentEntry[],
  { bytesMax, entriesMax }: { readonly bytesMax: number; readonly entriesMax: number },
): Uint8Array[] {
  const records: Uint8Array[] = [];
  let [from, bytes] = [0, INTENT_HEADER_BYTES];
  for (let at = 0; at < entries.length; at += 1) {
    const { key } = entries[at]!;
    const more = varintBytes(key.length) + key.length + 2 * IMAGE_BYTES_MAX;
    if (at > from && (at - from >= entriesMax || bytes + more > bytesMax)) {
      records.push(encodeIntent(number, entries.slice(from, at)));
      [from, bytes] = [at, INTENT_HEADER_BYTES];
    }
    bytes += more;
  }
  if (from < entries.length) records.push(encodeIntent(number, entries.slice(from)));
  return records;
}

function encodeIntent(number: bigint, entries: readonly IntentEntry[]): Uint8Array {
  const writer = new ByteWriter().u8(FORMAT_VERSION).u8(INTENT).u64(0n).u64(number);
  for (const { key, before, after } of entries) {
    writer.bytes(key);
    writeImage(writer, before);
    writeImage(writer, after);
  }
  return writer.finish();
}

function writeImage(writer: ByteWriter, image: number): void {
  writer.u8(image === 0 ? 0 : 1);
  if (image !== 0) writer.u32(image - 1);
}

export function setAcknowledged(payload: Uint8Array, acknowledged: bigint): void {
  new DataView(payload.buffer, payload.byteOffset).setBigUint64(ACKNOWLEDGED_AT, acknowledged);
}

/** CORRUPT_DATA: nothing that this program wrote. */
export function decodeRecord(payload: Uint8Array): StoreRecord {
  const reader = new ByteReader(payload);
  const version = reader.u8();
  if (version !== FORMAT_VERSION) throw corrupt(`a record of the store has version ${version}, this program knows ${FORMAT_VERSION}`);
  const kind = reader.u8();
  const acknowledged = reader.u64();
  if (kind === BATCH) return { kind: "batch", acknowledged, operations: readOperations(reader) };
  if (kind === INTENT) return { kind: "intent", acknowledged, number: reader.u64(), entries: readEntries(reader) };
  throw corrupt(`a record of the store has the unknown kind ${kind}`);
}

function readOperations(reader: ByteReader): KeyValueOperation[] {
  const operations: KeyValueOperation[] = [];
  while (reader.remaining > 0) {
    const kind = reader.u8();
    const key = reader.bytes();
    if (kind === PUT) operations.push({ kind: "put", key, value: reader.raw(reader.u32()) });
    else if (kind === DELETE) operations.push({ kind: "delete", key });
    else throw corrupt(`an operation has the unknown kind ${kind}`);
  }
  return operations;
}

function readEntries(reader: ByteReader): IntentEntry[] {
  const entries: IntentEntry[] = [];
  const image = (): number => (reader.u8() === 0 ? 0 : reader.u32() + 1);
  while (reader.remaining > 0) entries.push({ key: reader.bytes(), before: image(), after: image() });
  return entries;
}

function batchBytes(operations: readonly KeyValueOperation[]): number {
  let bytes = HEADER_BYTES;
  for (const operation of operations) {
    bytes += 1 + varintBytes(operation.key.length) + operation.key.length;
    if (operation.kind === "put") bytes += 4 + operation.value.length;
  }
  return bytes;
}

function varintBytes(value: number): number {
  let bytes = 1;
  for (let rest = value; rest >= 0x80; rest >>>= 7) bytes += 1;
  return bytes;
}

function writeVarint(bytes: Uint8Array, at: number, value: number): number {
  let [place, rest] = [at, value];
  for (; rest >= 0x80; rest >>>= 7) bytes[place++] = (rest & 0x7f) | 0x80;
  bytes[place++] = rest;
  return place;
}

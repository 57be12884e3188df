// Kafka's record batches, version 2, as they are on the wire and on disk. A codec of our own: kafkajs keeps headers in an object, which loses
// their order, sorts timestamps as texts and checks no checksum.
import { messageBytes, type LogMessage, type NewMessage, type OpenTransaction } from "@concord/ports";
import { crc32c } from "@concord/checksums";
import { compressedToFit, decompress, type Compressed } from "./compression.ts";
import type { EpochStart } from "./leader-epochs.ts";
import { BATCH_OVERHEAD_BYTES } from "./limits.ts";

const MAGIC = 2;
const LENGTH_AT = 8;
const MAGIC_AT = 16;
const CRC_AT = 17;
const ATTRIBUTES_AT = 21;
const LAST_DELTA_AT = 23;
const BASE_TIME_AT = 27;
const MAX_TIME_AT = 35;
const PRODUCER_AT = 43;
const EPOCH_AT = 51;
const SEQUENCE_AT = 53;
const COUNT_AT = 57;
const CODEC_MASK = 7;
const TRANSACTIONAL = 16;
const CONTROL = 32;
const APPEND_TIME = 8;
/** Offset and length stand before what the length counts. */
const LENGTH_END = 12;
const ABORT_MARKER = 0;

/** Who sends a batch, so that the broker refuses a repeated, missing or fenced one. */
export interface BatchProducer {
  readonly id: bigint;
  readonly epoch: number;
  readonly sequence: number;
  readonly isTransactional: boolean;
}

export interface AbortedTransaction {
  readonly producerId: bigint;
  readonly firstOffset: bigint;
}

export interface DecodedBatches {
  /** Committed ones, in offset order. */
  readonly messages: readonly LogMessage[];
  /** Behind the last whole batch; undefined when there is none. */
  readonly next: bigint | undefined;
  /** Epochs of the leaders that took the whole batches: one entry for batches of one epoch that follow each other. */
  readonly epochs: readonly EpochStart[];
}

/**
 * One batch. Times above `nowMs` become it: a broker refuses the whole batch for one message of the future. Records of more than `recordBytesMax`
 * are compressed: the producer of a message that is larger than max.message.bytes compressed it, too.
 */
export function encodeBatch(
  messages: readonly NewMessage[],
  producer: BatchProducer | undefined,
  nowMs: number,
  recordBytesMax: number = Infinity,
): Buffer {
  const times = messages.map(({ timestampMs }) => Math.max(0, Math.min(timestampMs, nowMs)));
  const baseTime = times.reduce((least, time) => Math.min(least, time), Infinity);
  const maxTime = times.reduce((most, time) => Math.max(most, time), 0);
  const size = messages.reduce((sum, message) => sum + messageBytes(message), BATCH_OVERHEAD_BYTES);
  const writer = new Writer(Buffer.allocUnsafe(size), BATCH_OVERHEAD_BYTES);
  messages.forEach((message, index) => writeRecord(writer, message, times[index]! - baseTime, index));
  const { codec, bytes } = fitted(writer.finish(), recordBytesMax);
  bytes.writeBigInt64BE(0n, 0);
  bytes.writeInt32BE(bytes.length - LENGTH_END, LENGTH_AT);
  bytes.writeInt32BE(-1, LENGTH_END);
  bytes.writeInt8(MAGIC, MAGIC_AT);
  bytes.writeInt16BE(codec | (producer?.isTransactional === true ? TRANSACTIONAL : 0), ATTRIBUTES_AT);
  bytes.writeInt32BE(messages.length - 1, LAST_DELTA_AT);
  bytes.writeBigInt64BE(BigInt(baseTime), BASE_TIME_AT);
  bytes.writeBigInt64BE(BigInt(maxTime), MAX_TIME_AT);
  bytes.writeBigInt64BE(producer?.id ?? -1n, PRODUCER_AT);
  bytes.writeInt16BE(producer?.epoch ?? -1, EPOCH_AT);
  bytes.writeInt32BE(producer?.sequence ?? -1, SEQUENCE_AT);
  bytes.writeInt32BE(messages.length, COUNT_AT);
  bytes.writeUInt32BE(crc32c(bytes.subarray(ATTRIBUTES_AT)), CRC_AT);
  return bytes;
}

/** A batch whose header is not written yet, with its records compressed where they must be. */
function fitted(batch: Buffer, recordBytesMax: number): Compressed {
  const records = batch.subarray(BATCH_OVERHEAD_BYTES);
  const { codec, bytes } = compressedToFit(records, recordBytesMax);
  return { codec, bytes: codec === 0 ? batch : Buffer.concat([Buffer.alloc(BATCH_OVERHEAD_BYTES), bytes]) };
}

function writeRecord(writer: Writer, { key, value, headers }: NewMessage, timeDelta: number, offsetDelta: number): void {
  const names = headers.map(({ name }) => Buffer.from(name));
  const headerBytes = headers.reduce((sum, header, at) => sum + sizeOfBytes(names[at]!) + sizeOfBytes(header.value), 0);
  const body =
    1 + sizeOfVarint(timeDelta) + sizeOfVarint(offsetDelta) + sizeOfBytes(key) + sizeOfBytes(value) + sizeOfVarint(headers.length);
  writer.varint(body + headerBytes);
  writer.byte(0);
  writer.varint(timeDelta);
  writer.varint(offsetDelta);
  writer.bytes(key);
  writer.bytes(value);
  writer.varint(headers.length);
  headers.forEach((header, at) => {
    writer.bytes(names[at]!);
    writer.bytes(header.value);
  });
}

/**
 * Messages of the batches from an offset on; those of aborted transactions and markers are left out, a batch that is cut at the end is left
 * for the next fetch. Throws, naming the offset, on a batch that fails its check or cannot be read.
 */
export function decodeBatches(bytes: Buffer, from: bigint, aborted: readonly AbortedTransaction[]): DecodedBatches {
  const messages: LogMessage[] = [];
  const pending = aborted.toSorted((left, right) => (left.firstOffset < right.firstOffset ? -1 : 1));
  const open = new Set<bigint>();
  let next: bigint | undefined;
  const epochs: EpochStart[] = [];
  for (let at = 0; at + LENGTH_END <= bytes.length;) {
    const end = at + LENGTH_END + bytes.readInt32BE(at + LENGTH_AT);
    if (end > bytes.length) break;
    const batch = bytes.subarray(at, end);
    const baseOffset = batch.readBigInt64BE(0);
    try {
      checkBatch(batch);
      const last = baseOffset + BigInt(batch.readInt32BE(LAST_DELTA_AT));
      while (pending[0] !== undefined && pending[0].firstOffset <= last) open.add(pending.shift()!.producerId);
      readBatch(batch, baseOffset, from, open, messages);
      next = last + 1n;
      const epoch = batch.readInt32BE(LENGTH_END);
      if (epochs.at(-1)?.epoch !== epoch) epochs.push({ offset: baseOffset, epoch });
    } catch (cause) {
      throw new Error(`the record batch at offset ${baseOffset} cannot be read: ${String(cause)}`, { cause });
    }
    at = end;
  }
  return { messages, next, epochs };
}

/** Whose transaction the first transactional batch from an offset on belongs to; undefined: there is none among these. */
export function firstTransaction(bytes: Buffer, from: bigint): OpenTransaction | undefined {
  for (let at = 0; at + BATCH_OVERHEAD_BYTES <= bytes.length; at += LENGTH_END + bytes.readInt32BE(at + LENGTH_AT)) {
    const batch = bytes.subarray(at);
    const offset = batch.readBigInt64BE(0);
    const attributes = batch.readInt16BE(ATTRIBUTES_AT);
    const isMessages = (attributes & TRANSACTIONAL) !== 0 && (attributes & CONTROL) === 0;
    if (isMessages && offset + BigInt(batch.readInt32BE(LAST_DELTA_AT)) >= from)
      return { offset, producerId: batch.readBigInt64BE(PRODUCER_AT) };
  }
  return undefined;
}

function checkBatch(batch: Buffer): void {
  if (batch.length < BATCH_OVERHEAD_BYTES) throw new Error("it is too short");
  if (batch[MAGIC_AT] !== MAGIC) throw new Error(`its format is ${batch[MAGIC_AT]}, readable is ${MAGIC}`);
  if (crc32c(batch.subarray(ATTRIBUTES_AT)) !== batch.readUInt32BE(CRC_AT)) throw new Error("its checksum is wrong");
}

function readBatch(batch: Buffer, baseOffset: bigint, from: bigint, open: Set<bigint>, messages: LogMessage[]): void {
  const attributes = batch.readInt16BE(ATTRIBUTES_AT);
  const producerId = batch.readBigInt64BE(PRODUCER_AT);
  const records = new Reader(decompress(attributes & CODEC_MASK, batch.subarray(BATCH_OVERHEAD_BYTES)));
  const baseTime = Number(batch.readBigInt64BE(BASE_TIME_AT));
  const appendTime = (attributes & APPEND_TIME) === 0 ? undefined : Number(batch.readBigInt64BE(MAX_TIME_AT));
  const isControl = (attributes & CONTROL) !== 0;
  if ((attributes & TRANSACTIONAL) !== 0 && !isControl && open.has(producerId)) return;
  for (let left = batch.readInt32BE(COUNT_AT); left > 0; left -= 1) {
    const record = readRecord(records, baseOffset, baseTime, appendTime);
    // A marker's key is its version and its kind: the end of an aborted transaction ends its producer's too.
    if (isControl && Buffer.from(record.key ?? []).readInt16BE(2) === ABORT_MARKER) open.delete(producerId);
    if (!isControl && record.offset >= from) messages.push(record);
  }
}

function readRecord(reader: Reader, baseOffset: bigint, baseTime: number, appendTime: number | undefined): LogMessage {
  const end = reader.varint() + reader.at;
  reader.byte();
  const timestampMs = appendTime ?? baseTime + reader.varint();
  if (appendTime !== undefined) reader.varint();
  const offset = baseOffset + BigInt(reader.varint());
  const key = reader.bytes();
  const value = reader.bytes();
  const headers = Array.from({ length: reader.varint() }, () => ({
    name: Buffer.from(reader.bytes() ?? []).toString(),
    value: reader.bytes(),
  }));
  if (reader.at !== end) throw new Error(`the record at offset ${offset} has another length than it says`);
  return { offset, key, value, headers, timestampMs };
}

const zigzag = (value: number): number => (value >= 0 ? value * 2 : -value * 2 - 1);

function sizeOfVarint(value: number): number {
  let size = 1;
  for (let left = zigzag(value); left >= 0x80; left = Math.floor(left / 0x80)) size += 1;
  return size;
}

const sizeOfBytes = (bytes: Uint8Array | null): number => (bytes === null ? sizeOfVarint(-1) : sizeOfVarint(bytes.length) + bytes.length);

class Writer {
  readonly #buffer: Buffer;
  #at: number;

  constructor(buffer: Buffer, at: number) {
    this.#buffer = buffer;
    this.#at = at;
  }

  byte(value: number): void {
    this.#buffer[this.#at++] = value;
  }

  varint(value: number): void {
    let left = zigzag(value);
    for (; left >= 0x80; left = Math.floor(left / 0x80)) this.byte((left % 0x80) | 0x80);
    this.byte(left);
  }

  bytes(bytes: Uint8Array | null): void {
    if (bytes === null) {
      this.varint(-1);
      return;
    }
    this.varint(bytes.length);
    this.#buffer.set(bytes, this.#at);
    this.#at += bytes.length;
  }

  finish(): Buffer {
    return this.#buffer.subarray(0, this.#at);
  }
}

class Reader {
  readonly #buffer: Buffer;
  at = 0;

  constructor(buffer: Buffer) {
    this.#buffer = buffer;
  }

  byte(): number {
    const byte = this.#buffer[this.at++];
    if (byte === undefined) throw new Error("its records are cut");
    return byte;
  }

  varint(): number {
    let [value, factor] = [0, 1];
    for (let byte = 0x80; byte >= 0x80; factor *= 0x80) {
      byte = this.byte();
      value += (byte & 0x7f) * factor;
      if (factor > 2 ** 63) throw new Error("a number has no end");
    }
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  }

  /** Bytes of their own. */
  bytes(): Uint8Array | null {
    const length = this.varint();
    if (length < 0) return null;
    if (this.at + length > this.#buffer.length) throw new Error("its records are cut");
    const bytes = new Uint8Array(this.#buffer.subarray(this.at, this.at + length));
    this.at += length;
    return bytes;
  }
}

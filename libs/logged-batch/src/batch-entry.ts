import { ByteReader, ByteWriter, openRecord, sealRecord } from "@concord/codec";
import type { DeadLetter, DeadLetterReason } from "@concord/ports";
import { assert, TIME_ID_BYTES, timeIdFromBytes, timeIdToBytes, type Checksum, type TimeId, type TimestampUs } from "@concord/runtime";

/** Version of batchlog entries and dead letters on disk and between nodes (LBD10). Golden bytes are tested. */
export const BATCH_FORMAT_VERSION = 1;
export const ENTRY_NAMESPACE = 0x62;
const LETTER_NAMESPACE = 0x64;

export const ENTRY_RANGE = { from: Uint8Array.of(ENTRY_NAMESPACE), to: Uint8Array.of(ENTRY_NAMESPACE + 1) };
export const LETTER_RANGE = { from: Uint8Array.of(LETTER_NAMESPACE), to: Uint8Array.of(LETTER_NAMESPACE + 1) };

/** The whole batch as one value (LB15): resolved mutations, nothing is evaluated again. */
export interface BatchEntry {
  readonly id: TimeId;
  /** The node that executes it. */
  readonly coordinator: string;
  /** The coordinator's wall clock. */
  readonly createdMs: number;
  readonly timestampUs: TimestampUs;
  /** Nodes whose batchlog holds it, by rank (LBD4). */
  readonly holders: readonly string[];
  readonly rowCount: number;
  /** In the storage format, with their timestamps. */
  readonly mutations: readonly Uint8Array[];
}

const REASONS: readonly DeadLetterReason[] = ["UNDECODABLE", "EXPIRED", "TABLE_DROPPED"];

export function entryKey(id: TimeId): Uint8Array {
  return keyOf(ENTRY_NAMESPACE, id);
}

export function letterKey(id: TimeId): Uint8Array {
  return keyOf(LETTER_NAMESPACE, id);
}

function keyOf(namespace: number, id: TimeId): Uint8Array {
  const key = new Uint8Array(1 + TIME_ID_BYTES);
  key[0] = namespace;
  key.set(timeIdToBytes(id), 1);
  return key;
}

/** The id in either key. */
export function idOfKey(key: Uint8Array): TimeId {
  assert(key[0] === ENTRY_NAMESPACE || key[0] === LETTER_NAMESPACE, "an id is read from the key of an entry or a letter");
  return timeIdFromBytes(key.subarray(1));
}

export function encodeEntry(entry: BatchEntry, checksum: Checksum): Uint8Array {
  const writer = new ByteWriter();
  writer.raw(timeIdToBytes(entry.id)).text(entry.coordinator).i64(BigInt(entry.createdMs)).i64(entry.timestampUs);
  writer.varint(entry.holders.length);
  for (const holder of entry.holders) writer.text(holder);
  writer.varint(entry.rowCount).varint(entry.mutations.length);
  for (const mutation of entry.mutations) writer.bytes(mutation);
  return sealRecord(BATCH_FORMAT_VERSION, writer, checksum);
}

/** CORRUPT_DATA when it is cut, changed or of a newer version. */
export function decodeEntry(bytes: Uint8Array, checksum: Checksum): BatchEntry {
  const reader = new ByteReader(openRecord(bytes, BATCH_FORMAT_VERSION, checksum).body);
  const id = timeIdFromBytes(reader.raw(TIME_ID_BYTES));
  const coordinator = reader.text();
  const createdMs = Number(reader.i64());
  const timestampUs = reader.timestampUs();
  const holders = Array.from({ length: reader.varint() }, () => reader.text());
  const rowCount = reader.varint();
  const mutations = Array.from({ length: reader.varint() }, () => reader.bytes());
  reader.end();
  return { id, coordinator, createdMs, timestampUs, holders, rowCount, mutations };
}

export function encodeLetter(letter: DeadLetter, checksum: Checksum): Uint8Array {
  const body = new ByteWriter().i64(BigInt(letter.setAsideMs)).text(letter.reason).bytes(letter.entry).finish();
  return sealRecord(BATCH_FORMAT_VERSION, body, checksum);
}

/** A letter that cannot be read itself is shown as it is stored. */
export function decodeLetter(id: TimeId, bytes: Uint8Array, checksum: Checksum): DeadLetter {
  try {
    const reader = new ByteReader(openRecord(bytes, BATCH_FORMAT_VERSION, checksum).body);
    const setAsideMs = Number(reader.i64());
    const text = reader.text();
    const reason = REASONS.find((known) => known === text) ?? "UNDECODABLE";
    return { id, reason, setAsideMs, entry: reader.bytes().slice() };
  } catch {
    return { id, reason: "UNDECODABLE", setAsideMs: 0, entry: bytes };
  }
}

/** Equal for equal payloads: what the batch writes; its coordinator is no part of it. */
export function digestOf(timestampUs: TimestampUs, mutations: readonly Uint8Array[], checksum: Checksum): string {
  let [bytes, folded] = [0, FNV_OFFSET];
  for (const mutation of mutations) {
    bytes += mutation.length;
    folded = Math.imul(folded ^ checksum(mutation), FNV_PRIME);
  }
  return `${timestampUs}-${mutations.length}-${bytes}-${folded >>> 0}`;
}

const FNV_OFFSET = 0x811c9dc5;
const FNV_PRIME = 0x01000193;

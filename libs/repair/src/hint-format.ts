import { ByteReader, ByteWriter, openRecord, sealRecord } from "@concord/codec";
import type { Checksum } from "@concord/runtime";

/** Version of hints on disk. Golden bytes are tested. */
export const HINT_FORMAT_VERSION = 1;
/** Node-local: never copied to peers. */
export const HINTS_NAMESPACE = 0x68; // 'h'

/** Mutations that a peer did not confirm. */
export interface Hint {
  /** Wall clock of the node that saw the write fail. */
  readonly createdMs: number;
  /** In the storage format, with the timestamps of the write. */
  readonly mutations: readonly Uint8Array[];
}

/** Orders the hints of one peer as they were made. */
export function hintKey(peer: string, sequence: bigint): Uint8Array {
  return new ByteWriter().u8(HINTS_NAMESPACE).text(peer).u64(sequence).finish();
}

export function readHintKey(key: Uint8Array): { readonly peer: string; readonly sequence: bigint } {
  const reader = new ByteReader(key.subarray(1));
  const named = { peer: reader.text(), sequence: reader.u64() };
  reader.end();
  return named;
}

/** Every hint of one peer. */
export function hintRange(peer: string): { readonly from: Uint8Array; readonly to: Uint8Array } {
  const prefix = new ByteWriter().u8(HINTS_NAMESPACE).text(peer).finish();
  return { from: prefix, to: Uint8Array.of(...prefix, ...new Uint8Array(9).fill(0xff)) };
}

export function encodeHint({ createdMs, mutations }: Hint, checksum: Checksum): Uint8Array {
  const writer = new ByteWriter().i64(BigInt(createdMs)).varint(mutations.length);
  for (const mutation of mutations) writer.bytes(mutation);
  return sealRecord(HINT_FORMAT_VERSION, writer, checksum);
}

/** CORRUPT_DATA when it is cut, changed or of a newer version. */
export function decodeHint(bytes: Uint8Array, checksum: Checksum): Hint {
  const reader = new ByteReader(openRecord(bytes, HINT_FORMAT_VERSION, checksum).body);
  const createdMs = Number(reader.i64());
  const mutations = Array.from({ length: reader.varint() }, () => reader.bytes());
  reader.end();
  return { createdMs, mutations };
}

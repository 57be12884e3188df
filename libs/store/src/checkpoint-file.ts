import { ByteReader, ByteWriter, openRecord, sealRecord } from "@concord/codec";
import type { SuspectRange } from "@concord/ports";
import { ConcordError, type Checksum, type Disk } from "@concord/runtime";
import type { RangeSum } from "./range-sums.ts";
import type { KeysNote } from "./stored-keys.ts";

/*
 * Version 4, a sealed record of codec: u64 number | u64 position | evidence, with its length | u64 left from | namespaces, with their
 * length: a byte each | u8 flags: 1 a scan ended, 2 keys are noted | u64 when the scan ended | u64 bytes of the keys | u32 their checksum |
 * u32 suspect ranges, each: from, to, with their lengths | ranges, to the end: u8 first byte of the keys | u64 count | u64 sum. Version 3 had no suspect
 * ranges, version 2 nothing of scan and keys, version 1 neither evidence nor namespaces. Without suspect ranges version 3 is written, which an older
 * program reads.
 */
const FORMAT_VERSION = 4;
const UNSUSPECTED_VERSION = 3;
const [SCANNED, HAS_KEYS] = [1, 2];
const NAME = "checkpoint";
const NEW_NAME = "checkpoint.new";
const FILE_BYTES_MAX = 64 * 1024;

const NONE = new Uint8Array();
export const NO_EVIDENCE = NONE;

export interface Checkpoint {
  /** One more with each checkpoint. */
  readonly number: bigint;
  /** Every write of the journal below this sequence is in the backing store, for good, but for those of `left`. */
  readonly position: bigint;
  /** Writes from `from` on to keys that begin with one of these bytes may be in the journal only. */
  readonly left: { readonly from: bigint; readonly namespaces: Uint8Array };
  /** What the backing store holds at least up to there. */
  readonly sums: readonly RangeSum[];
  /** Of the backing store's files that hold it; empty: there is none, only a scan tells. */
  readonly evidence: Uint8Array;
  /** When a scan of all that the backing store holds last ended, by this node's clock; undefined: never. */
  readonly scannedMs: number | undefined;
  /** What counts of the file with the keys of the backing store; undefined: only a scan tells which keys there are. */
  readonly keys: KeysNote | undefined;
  /** Keys of which the backing store may hold older values, ascending and disjoint. */
  readonly suspects: readonly SuspectRange[];
}

/** Undefined when there is none. CORRUPT_DATA. */
export async function readCheckpoint(disk: Disk, folder: string, checksum: Checksum): Promise<Checkpoint | undefined> {
  const file = await disk.open(`${folder}/${NAME}`);
  if (file === undefined) return undefined;
  try {
    return decodeCheckpoint(await file.read(0, FILE_BYTES_MAX), checksum);
  } catch (thrown) {
    if (!(thrown instanceof ConcordError) || thrown.code !== "CORRUPT_DATA") throw thrown;
    throw new ConcordError("CORRUPT_DATA", `${folder}/${NAME}: ${thrown.message}`, { cause: thrown });
  } finally {
    await file.close();
  }
}

/** Replaces the one before it as a whole: synced under another name, then renamed, then the name is synced. */
export async function writeCheckpoint(disk: Disk, folder: string, checkpoint: Checkpoint, checksum: Checksum): Promise<void> {
  const path = `${folder}/${NEW_NAME}`;
  // What a crash left of an earlier one.
  await disk.remove(path);
  const file = await disk.create(path);
  if (file === "exists") throw new ConcordError("STORE_FAILED", `${path} cannot be made: something has its name`, { applied: "no" });
  try {
    await file.write(0, [encodeCheckpoint(checkpoint, checksum)]);
    await file.sync();
  } finally {
    await file.close();
  }
  await disk.rename(path, `${folder}/${NAME}`);
  await disk.syncFolder(folder);
}

export function encodeCheckpoint(checkpoint: Checkpoint, checksum: Checksum): Uint8Array {
  const { number, position, left, sums, evidence, scannedMs, keys, suspects } = checkpoint;
  const writer = new ByteWriter().u64(number).u64(position).bytes(evidence).u64(left.from).bytes(left.namespaces);
  writer.u8((scannedMs === undefined ? 0 : SCANNED) + (keys === undefined ? 0 : HAS_KEYS)).u64(BigInt(scannedMs ?? 0));
  writer.u64(BigInt(keys?.bytes ?? 0)).u32(keys?.checksum ?? 0);
  if (suspects.length > 0) writer.u32(suspects.length);
  for (const { from, to } of suspects) writer.bytes(from).bytes(to);
  for (const { range, count, sum } of sums) writer.u8(range).u64(BigInt(count)).u64(BigInt(sum));
  return sealRecord(suspects.length > 0 ? FORMAT_VERSION : UNSUSPECTED_VERSION, writer, checksum);
}

export function decodeCheckpoint(bytes: Uint8Array, checksum: Checksum): Checkpoint {
  const { version, body } = openRecord(bytes, FORMAT_VERSION, checksum);
  const reader = new ByteReader(body);
  const [number, position] = [reader.u64(), reader.u64()];
  const evidence = version === 1 ? NO_EVIDENCE : reader.bytes().slice();
  const left = version === 1 ? { from: position, namespaces: NONE } : { from: reader.u64(), namespaces: reader.bytes().slice() };
  const flags = version < 3 ? 0 : reader.u8();
  const [scanned, keysBytes, keysChecksum] = version < 3 ? [0n, 0n, 0] : [reader.u64(), reader.u64(), reader.u32()];
  const scannedMs = (flags & SCANNED) === 0 ? undefined : Number(scanned);
  const keys = (flags & HAS_KEYS) === 0 ? undefined : { bytes: Number(keysBytes), checksum: keysChecksum };
  const suspects: SuspectRange[] = [];
  for (let left = version < 4 ? 0 : reader.u32(); left > 0; left -= 1)
    suspects.push({ from: reader.bytes().slice(), to: reader.bytes().slice() });
  const sums: RangeSum[] = [];
  while (reader.remaining > 0) sums.push({ range: reader.u8(), count: Number(reader.u64()), sum: Number(reader.u64()) });
  return { number, position, left, sums, evidence, scannedMs, keys, suspects };
}

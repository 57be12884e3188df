import { corrupt } from "@concord/codec";
import type { Oid, BlobState } from "@concord/ports";
import type { Checksum, DiskFile } from "@concord/runtime";
import { HEADER_BYTES_MAX, LIKELY_TRAILER_BYTES, READ_BLOCKS, SMALL_FILE_BYTES, TAIL_BYTES } from "./limits.ts";
import type { ReadMemory } from "./read-memory.ts";
import { decodeHeader, decodeTable, decodeTrailer, endBytesOf, tableBytesOf, TRAILER_BYTES_MAX, type BlobTrailer } from "./blob-format.ts";

/**
 * What the file says of itself. Sealed: its end is whole; data and header may still have been lost in a power cut before its seal was
 * answered. CORRUPT_DATA when it is another blob's.
 */
export async function inspectBlob(file: DiskFile, oid: Oid, checksum: Checksum): Promise<BlobState> {
  const trailer = await trailerOf(file, checksum);
  const header = trailer ?? decodeHeader(await file.read(0, Math.min(file.size, HEADER_BYTES_MAX)), checksum);
  if (header !== undefined && header.oid !== oid) throw corrupt(`the file of blob ${oid} holds ${header.oid}`);
  if (trailer === undefined) return { kind: "open", description: header?.description };
  return { kind: "sealed", description: trailer.description, sealed: trailer.sealed };
}

/** Undefined: not sealed. Most are found in a short end. */
async function trailerOf(file: DiskFile, checksum: Checksum): Promise<BlobTrailer | undefined> {
  for (const bytes of [LIKELY_TRAILER_BYTES, TRAILER_BYTES_MAX]) {
    const tailBytes = Math.min(file.size, bytes);
    const trailer = decodeTrailer(await file.read(file.size - tailBytes, tailBytes), file.size, checksum);
    if (trailer !== undefined || tailBytes === file.size) return trailer;
  }
  return undefined;
}

/** The end of a sealed blob, and the file's last bytes as they were read for it. */
interface BlobEnd {
  readonly trailer: BlobTrailer;
  readonly table: readonly number[];
  readonly tail: Uint8Array;
  readonly tailAt: number;
}

/** Every byte given out was verified: a block at a time (I4). A chunk's memory is used again when the next one is asked for. */
export async function* readBlob(
  file: DiskFile,
  oid: Oid,
  range: { readonly offset: number; readonly lengthBytes: number },
  { checksum, memory }: { readonly checksum: Checksum; readonly memory?: ReadMemory },
): AsyncIterable<Uint8Array> {
  const end = await readEnd(file, oid, checksum);
  const { blockBytes, sealed } = end.trailer;
  const to = range.offset + range.lengthBytes;
  if (to > sealed.lengthBytes) throw corrupt(`blob ${oid} has ${sealed.lengthBytes} bytes, ${to} were expected`);
  if (range.lengthBytes === 0) return;
  const [first, behind] = [Math.floor(range.offset / blockBytes), Math.ceil(to / blockBytes)];
  // One chunk is the reader's, one is read ahead.
  let given = memory?.take(chunkBytes(end, first, behind));
  let ahead = first + READ_BLOCKS < behind ? memory?.take(READ_BLOCKS * blockBytes) : undefined;
  let next: Promise<Uint8Array> | undefined = readBlocks(file, end, { first, behind, into: given });
  try {
    for (let block = first; next !== undefined; block += READ_BLOCKS) {
      const bytes = await next;
      // Read ahead: the disk works while the reader sends.
      next = block + READ_BLOCKS < behind ? readBlocks(file, end, { first: block + READ_BLOCKS, behind, into: ahead }) : undefined;
      next?.catch(() => undefined);
      [given, ahead] = [ahead, given];
      verifyBlocks(bytes, chunkBytes(end, block, behind), block, end, checksum);
      const at = block * blockBytes;
      yield bytes.subarray(Math.max(0, range.offset - at), Math.min(bytes.length, to - at));
    }
  } finally {
    await next?.catch(() => undefined);
    memory?.give(given);
    memory?.give(ahead);
  }
}

async function readEnd(file: DiskFile, oid: Oid, checksum: Checksum): Promise<BlobEnd> {
  const tailBytes = file.size <= SMALL_FILE_BYTES ? file.size : TAIL_BYTES;
  const tailAt = file.size - tailBytes;
  const tail = await file.read(tailAt, tailBytes);
  const trailer = decodeTrailer(tail, file.size, checksum);
  if (trailer === undefined) throw corrupt(`blob ${oid} is not whole`);
  if (trailer.oid !== oid) throw corrupt(`the file of blob ${oid} holds ${trailer.oid}`);
  const tableBytes = tableBytesOf(trailer);
  const tableAt = file.size - endBytesOf(trailer);
  const table = tableAt >= tailAt ? tail.subarray(tableAt - tailAt, tableAt - tailAt + tableBytes) : await file.read(tableAt, tableBytes);
  return { trailer, table: decodeTable(table, trailer, checksum), tail, tailAt };
}

/** Bytes of the blocks that are read together: those from `first` on, none from `behind` on. */
function chunkBytes({ trailer: { blockBytes, sealed } }: BlobEnd, first: number, behind: number): number {
  return Math.min(Math.min(first + READ_BLOCKS, behind) * blockBytes, sealed.lengthBytes) - first * blockBytes;
}

interface Blocks {
  readonly first: number;
  readonly behind: number;
  readonly into: Uint8Array | undefined;
}

async function readBlocks(file: DiskFile, end: BlobEnd, { first, behind, into }: Blocks): Promise<Uint8Array> {
  const at = end.trailer.headerBytes + first * end.trailer.blockBytes;
  const length = chunkBytes(end, first, behind);
  return at >= end.tailAt ? end.tail.subarray(at - end.tailAt, at - end.tailAt + length) : await file.read(at, length, into);
}

function verifyBlocks(bytes: Uint8Array, expectedBytes: number, first: number, { trailer, table }: BlobEnd, checksum: Checksum): void {
  const { blockBytes, oid } = trailer;
  if (bytes.length !== expectedBytes) throw corrupt(`blob ${oid} ends early`);
  for (let at = 0, block = first; at < bytes.length; at += blockBytes, block += 1)
    if (checksum(bytes.subarray(at, at + blockBytes)) >>> 0 !== table[block])
      throw corrupt(`block ${block} of blob ${oid} fails its checksum`);
}

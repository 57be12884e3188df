// Version 1: header, data, one checksum per block, the header again, trailer. A blob without a whole trailer at its end is not sealed.
// After a power cut any of its pages may be missing: with the header in the trailer a sealed blob never lacks its description.
import { ByteReader, ByteWriter, corrupt } from "@concord/codec";
import { oidOf, parseOid, type Oid, type BlobDescription, type SealedBlob } from "@concord/ports";
import { ConcordError, type Checksum } from "@concord/runtime";
import { BLOCK_BYTES, HEADER_BYTES_MAX } from "./limits.ts";

const HEADER_MAGIC = 0x43504945;
const TRAILER_MAGIC = 0x43504954;
const FORMAT_VERSION = 1;
const CHECKSUM_BYTES = 4;
/** Magic, version, length of the body. */
const HEADER_PREFIX_BYTES = 9;

/** The last part of the trailer; the header's copy stands before it. */
const FIXED_BYTES = 45;
/** How many bytes at the end suffice to decode any trailer. */
export const TRAILER_BYTES_MAX = HEADER_BYTES_MAX + FIXED_BYTES;

export interface BlobHeader {
  readonly oid: Oid;
  readonly description: BlobDescription;
}

export interface BlobTrailer {
  readonly oid: Oid;
  readonly description: BlobDescription;
  /** Where the data begins. */
  readonly headerBytes: number;
  readonly blockBytes: number;
  readonly sealed: SealedBlob;
  /** Checksum of the blocks' checksums. */
  readonly tableChecksum: number;
}

export function encodeHeader({ oid, description }: BlobHeader, checksum: Checksum): Uint8Array {
  const { part } = description;
  const body = writeOid(new ByteWriter(), oid)
    .text(description.bucket)
    .text(description.key)
    .u8(part === undefined ? 0 : 1)
    .u64(part?.uploadId ?? 0n)
    .u32(part?.number ?? 0)
    .u64(description.guid)
    .finish();
  const bytes = withChecksum(new ByteWriter().u32(HEADER_MAGIC).u8(FORMAT_VERSION).u32(body.length).raw(body).finish(), checksum);
  if (bytes.length > HEADER_BYTES_MAX) throw new ConcordError("LIMIT_EXCEEDED", `bucket and key are too long for blob ${oid}`);
  return bytes;
}

/** Undefined: what is there is no whole header. CORRUPT_DATA: it is of a newer format. */
export function decodeHeader(bytes: Uint8Array, checksum: Checksum): BlobHeader | undefined {
  if (bytes.length < HEADER_PREFIX_BYTES) return undefined;
  const prefix = new ByteReader(bytes);
  if (prefix.u32() !== HEADER_MAGIC) return undefined;
  const version = prefix.u8();
  const end = HEADER_PREFIX_BYTES + prefix.u32() + CHECKSUM_BYTES;
  const content = end <= bytes.length ? withoutChecksum(bytes.subarray(0, end), checksum) : undefined;
  if (content === undefined) return undefined;
  if (version !== FORMAT_VERSION) throw corrupt(`a blob of format ${version}, known is ${FORMAT_VERSION}`);
  const reader = new ByteReader(content.subarray(HEADER_PREFIX_BYTES));
  const oid = readOid(reader);
  const [bucket, key, hasPart] = [reader.text(), reader.text(), reader.u8() === 1];
  const part = { uploadId: reader.u64(), number: reader.u32() };
  return { oid, description: { bucket, key, part: hasPart ? part : undefined, guid: reader.u64() } };
}

/** The blocks' checksums and the trailer behind them. `header`: as it was written at the beginning. */
export function encodeEnd(oid: Oid, header: Uint8Array, sealed: SealedBlob, table: readonly number[], checksum: Checksum): Uint8Array {
  const blocks = new ByteWriter(table.length * CHECKSUM_BYTES);
  for (const block of table) blocks.u32(block);
  const tableBytes = blocks.finish();
  const trailer = writeOid(new ByteWriter(header.length + FIXED_BYTES).raw(header).u32(TRAILER_MAGIC).u8(FORMAT_VERSION), oid)
    .u32(header.length)
    .u32(BLOCK_BYTES)
    .u64(BigInt(sealed.lengthBytes))
    .u32(sealed.checksum)
    .u32(checksum(tableBytes) >>> 0)
    .finish();
  return new ByteWriter(tableBytes.length + trailer.length + CHECKSUM_BYTES).raw(tableBytes).raw(withChecksum(trailer, checksum)).finish();
}

/** From the last bytes of a file of `fileBytes`, TRAILER_BYTES_MAX of them or all. Undefined: not sealed. CORRUPT_DATA: of a newer format. */
export function decodeTrailer(tail: Uint8Array, fileBytes: number, checksum: Checksum): BlobTrailer | undefined {
  const trailer = decodeEnd(tail, checksum);
  return trailer !== undefined && blobBytesOf(trailer) === fileBytes ? trailer : undefined;
}

/** Of a blob that ends where `tail` does and begins where the trailer says. */
export function decodeEnd(tail: Uint8Array, checksum: Checksum): BlobTrailer | undefined {
  if (tail.length < FIXED_BYTES) return undefined;
  const reader = new ByteReader(tail.subarray(tail.length - FIXED_BYTES));
  if (reader.u32() !== TRAILER_MAGIC) return undefined;
  const version = reader.u8();
  const oid = { epoch: reader.u32(), sequence: Number(reader.u64()) };
  const headerBytes = reader.u32();
  if (tail.length < headerBytes + FIXED_BYTES) return undefined;
  const content = withoutChecksum(tail.subarray(tail.length - FIXED_BYTES - headerBytes), checksum);
  if (content === undefined) return undefined;
  if (version !== FORMAT_VERSION) throw corrupt(`a blob of format ${version}, known is ${FORMAT_VERSION}`);
  const description = decodeHeader(content, checksum)?.description;
  const [blockBytes, lengthBytes, whole, tableChecksum] = [reader.u32(), Number(reader.u64()), reader.u32(), reader.u32()];
  if (description === undefined) return undefined;
  const sealed = { lengthBytes, checksum: whole };
  return { oid: oidOf(oid.epoch, oid.sequence), description, headerBytes, blockBytes, sealed, tableChecksum };
}

export function blobBytesOf(trailer: BlobTrailer): number {
  return trailer.headerBytes + trailer.sealed.lengthBytes + endBytesOf(trailer);
}

export function tableBytesOf({ sealed: { lengthBytes }, blockBytes }: BlobTrailer): number {
  return Math.ceil(lengthBytes / blockBytes) * CHECKSUM_BYTES;
}

/** Everything behind the data. */
export function endBytesOf(trailer: BlobTrailer): number {
  return tableBytesOf(trailer) + trailer.headerBytes + FIXED_BYTES;
}

/** CORRUPT_DATA when the table is not the one that was written. */
export function decodeTable(bytes: Uint8Array, trailer: BlobTrailer, checksum: Checksum): readonly number[] {
  if (checksum(bytes) >>> 0 !== trailer.tableChecksum) throw corrupt(`the checksums of blob ${trailer.oid} fail their own`);
  const reader = new ByteReader(bytes);
  return Array.from({ length: bytes.length / CHECKSUM_BYTES }, () => reader.u32());
}

export function withChecksum(content: Uint8Array, checksum: Checksum): Uint8Array {
  return new ByteWriter(content.length + CHECKSUM_BYTES)
    .raw(content)
    .u32(checksum(content) >>> 0)
    .finish();
}

export function withoutChecksum(bytes: Uint8Array, checksum: Checksum): Uint8Array | undefined {
  const content = bytes.subarray(0, bytes.length - CHECKSUM_BYTES);
  const expected = new ByteReader(bytes.subarray(content.length)).u32();
  return checksum(content) >>> 0 === expected ? content : undefined;
}

function writeOid(writer: ByteWriter, oid: Oid): ByteWriter {
  const { epoch, sequence } = parseOid(oid);
  return writer.u32(epoch).u64(BigInt(sequence));
}

function readOid(reader: ByteReader): Oid {
  return oidOf(reader.u32(), Number(reader.u64()));
}

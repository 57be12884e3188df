// What the index says of one blob. Version 1: kind, stripes, description, length and checksum; sealed as every record.
import { ByteReader, ByteWriter, corrupt, openRecord, sealRecord } from "@concord/codec";
import type { BlobDescription, SealedBlob } from "@concord/ports";
import { ConcordError, unreachable, type Checksum } from "@concord/runtime";
import { ENTRY_BYTES_MAX } from "./limits.ts";

const FORMAT_VERSION = 1;
const KINDS = ["begun", "sealed", "removing", "burning", "burnt"] as const;

export type Entry =
  /** Its writer may make stripes up to `stripes`, and no others (I2). */
  | { readonly kind: "begun"; readonly stripes: number; readonly description: BlobDescription }
  /** Each of its stripes was acknowledged before. */
  | { readonly kind: "sealed"; readonly stripes: number; readonly description: BlobDescription; readonly sealed: SealedBlob }
  /** Its stripes go; `burning`: each of its names is made unusable first, for a writer may still be on its way. */
  | { readonly kind: "removing" | "burning"; readonly stripes: number; readonly description: BlobDescription }
  /** There is no blob, and its name cannot be used. */
  | { readonly kind: "burnt"; readonly stripes: number };

const NOTHING: BlobDescription = { bucket: "", key: "", part: undefined, guid: 0n };

/** LIMIT_EXCEEDED when bucket and key are too long. */
export function encodeEntry(entry: Entry, checksum: Checksum): Uint8Array {
  const { bucket, key, part, guid } = entry.kind === "burnt" ? NOTHING : entry.description;
  const sealed = entry.kind === "sealed" ? entry.sealed : { lengthBytes: 0, checksum: 0 };
  const body = new ByteWriter()
    .u8(KINDS.indexOf(entry.kind))
    .u32(entry.stripes)
    .text(bucket)
    .text(key)
    .u8(part === undefined ? 0 : 1)
    .u64(part?.uploadId ?? 0n)
    .u32(part?.number ?? 0)
    .u64(guid)
    .u64(BigInt(sealed.lengthBytes))
    .u32(sealed.checksum)
    .finish();
  if (body.length > ENTRY_BYTES_MAX) throw new ConcordError("LIMIT_EXCEEDED", `bucket and key have more than ${ENTRY_BYTES_MAX} bytes`);
  return sealRecord(FORMAT_VERSION, body, checksum);
}

/** CORRUPT_DATA when it is damaged or of a newer format. */
export function decodeEntry(bytes: Uint8Array, checksum: Checksum): Entry {
  const reader = new ByteReader(openRecord(bytes, FORMAT_VERSION, checksum).body);
  const kind = KINDS[reader.u8()];
  if (kind === undefined) throw corrupt("a blob's entry is of an unknown kind");
  const stripes = reader.u32();
  const [bucket, key, hasPart] = [reader.text(), reader.text(), reader.u8() === 1];
  const part = { uploadId: reader.u64(), number: reader.u32() };
  const description = { bucket, key, part: hasPart ? part : undefined, guid: reader.u64() };
  const sealed = { lengthBytes: Number(reader.u64()), checksum: reader.u32() };
  switch (kind) {
    case "begun":
    case "removing":
    case "burning":
      return { kind, stripes, description };
    case "sealed":
      return { kind, stripes, description, sealed };
    case "burnt":
      return { kind, stripes };
    default:
      return unreachable(kind);
  }
}

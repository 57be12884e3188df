// Records of the local journal, version 1: version byte, kind byte, fields. The journal's frames carry the checksum. Golden bytes are tested.
import { ByteReader, ByteWriter, corrupt } from "@concord/codec";
import { oidOf, parseOid, type Oid, type BlobDescription, type RowVersion } from "@concord/ports";
import { assert, unreachable } from "@concord/runtime";
import type { NameBlock } from "../reservation/names.ts";

const VERSION = 1;
const TAGS = { reserved: 1, begun: 2, committed: 3, aborted: 4, deleting: 5, deleted: 6, removing: 7 } as const;

/** The row an upload replaces, as it was; undefined: none. Only the basic form writes it down (OG6). */
export type OldRow = { readonly version: RowVersion; readonly value: Uint8Array } | undefined;

/** [T:start] and [T:create oid] in one record. */
export interface BegunUpload {
  readonly kind: "begun";
  readonly oid: Oid;
  readonly description: BlobDescription;
  readonly form: { readonly kind: "optimised" } | { readonly kind: "basic"; readonly old: OldRow };
}

/** [T:delete] and [T:move oids to gc] in one record: redone at exactly this version, or never (OG11). */
export interface BegunDelete {
  readonly kind: "deleting";
  readonly bucket: string;
  readonly key: string;
  readonly guid: bigint;
  readonly version: RowVersion;
  /** Of the version of the key that goes, when it is named; its row, current or not, is exactly `version`. A record of its own on disk. */
  readonly versionId?: string;
}

export interface Reservation {
  readonly kind: "reserved";
  readonly epoch: number;
  readonly block: NameBlock;
}

export type UploadRecord =
  | Reservation
  | BegunUpload
  /** Basic form only. */
  | { readonly kind: "committed"; readonly oid: Oid }
  | { readonly kind: "aborted"; readonly oid: Oid }
  | BegunDelete
  /** Decided, either way. */
  | { readonly kind: "deleted"; readonly guid: bigint };

/** What is unresolved (OGD7), whole: nothing before the checkpoint is needed, so older segments can go (OG10). */
export interface UploadCheckpoint {
  /** The newest block of the gateway's epoch, if it works with blocks. */
  readonly reserved: readonly Reservation[];
  readonly uploads: readonly BegunUpload[];
  readonly deletes: readonly BegunDelete[];
}

export function encodeRecord(record: UploadRecord): Uint8Array {
  const writer = new ByteWriter().u8(VERSION);
  writeRecord(writer, record);
  return writer.finish();
}

/** CORRUPT_DATA when it is no record of a known version. */
export function decodeRecord(bytes: Uint8Array): UploadRecord {
  const reader = readerOf(bytes);
  const record = readRecord(reader);
  reader.end();
  return record;
}

/** Of a checkpoint without a transaction: its version, their number and the newest block. */
export const CHECKPOINT_HEAD_BYTES_MAX = 32;

export function encodeCheckpoint(checkpoint: UploadCheckpoint): Uint8Array {
  const records = [...checkpoint.reserved, ...checkpoint.uploads, ...checkpoint.deletes];
  const writer = new ByteWriter().u8(VERSION).varint(records.length);
  for (const record of records) writeRecord(writer, record);
  return writer.finish();
}

export function decodeCheckpoint(bytes: Uint8Array): UploadCheckpoint {
  const reader = readerOf(bytes);
  const count = reader.varint();
  const reserved: Reservation[] = [];
  const uploads: BegunUpload[] = [];
  const deletes: BegunDelete[] = [];
  for (let i = 0; i < count; i += 1) {
    const record = readRecord(reader);
    if (record.kind === "reserved") reserved.push(record);
    else if (record.kind === "begun") uploads.push(record);
    else if (record.kind === "deleting") deletes.push(record);
    else throw corrupt(`a checkpoint lists a record of kind ${record.kind}`);
  }
  reader.end();
  return { reserved, uploads, deletes };
}

function readerOf(bytes: Uint8Array): ByteReader {
  const reader = new ByteReader(bytes);
  const version = reader.u8();
  if (version !== VERSION) throw corrupt(`an upload record of version ${version}, known is ${VERSION}`);
  return reader;
}

function writeRecord(writer: ByteWriter, record: UploadRecord): void {
  writer.u8(record.kind === "deleting" && record.versionId !== undefined ? TAGS.removing : TAGS[record.kind]);
  switch (record.kind) {
    case "reserved":
      assert(record.block.from < record.block.to, "OGD6: a block that is recorded has names");
      writer.u32(record.epoch).u64(BigInt(record.block.from)).u64(BigInt(record.block.to));
      return;
    case "begun":
      writeBegun(writer, record);
      return;
    case "committed":
    case "aborted":
      writeOid(writer, record.oid);
      return;
    case "deleting":
      writer.text(record.bucket).text(record.key).u64(record.guid);
      writeVersion(writer, record.version);
      if (record.versionId !== undefined) writer.text(record.versionId);
      return;
    case "deleted":
      writer.u64(record.guid);
      return;
    default:
      unreachable(record);
  }
}

function readRecord(reader: ByteReader): UploadRecord {
  const tag = reader.u8();
  switch (tag) {
    case TAGS.reserved:
      return { kind: "reserved", epoch: reader.u32(), block: { from: Number(reader.u64()), to: Number(reader.u64()) } };
    case TAGS.begun:
      return readBegun(reader);
    case TAGS.committed:
      return { kind: "committed", oid: readOid(reader) };
    case TAGS.aborted:
      return { kind: "aborted", oid: readOid(reader) };
    case TAGS.deleting:
      return readDeleting(reader);
    case TAGS.removing:
      return { ...readDeleting(reader), versionId: reader.text() };
    case TAGS.deleted:
      return { kind: "deleted", guid: reader.u64() };
    default:
      throw corrupt(`an upload record of unknown kind ${tag}`);
  }
}

function readDeleting(reader: ByteReader): BegunDelete {
  return { kind: "deleting", bucket: reader.text(), key: reader.text(), guid: reader.u64(), version: readVersion(reader) };
}

/** Forms: optimised, basic without an old row, basic with one. */
const FORMS = { optimised: 0, nothing: 1, row: 2 } as const;

function writeBegun(writer: ByteWriter, { oid, description, form }: BegunUpload): void {
  writeOid(writer, oid);
  const { bucket, key, part, guid } = description;
  writer
    .text(bucket)
    .text(key)
    .u64(guid)
    .u8(part === undefined ? 0 : 1);
  if (part !== undefined) writer.u64(part.uploadId).u32(part.number);
  if (form.kind === "optimised") writer.u8(FORMS.optimised);
  else if (form.old === undefined) writer.u8(FORMS.nothing);
  else {
    writeVersion(writer.u8(FORMS.row), form.old.version);
    writer.bytes(form.old.value);
  }
}

function readBegun(reader: ByteReader): BegunUpload {
  const oid = readOid(reader);
  const [bucket, key, guid] = [reader.text(), reader.text(), reader.u64()];
  const part = reader.u8() === 0 ? undefined : { uploadId: reader.u64(), number: reader.u32() };
  return { kind: "begun", oid, description: { bucket, key, part, guid }, form: readForm(reader) };
}

function readForm(reader: ByteReader): BegunUpload["form"] {
  const form = reader.u8();
  if (form === FORMS.optimised) return { kind: "optimised" };
  if (form === FORMS.nothing) return { kind: "basic", old: undefined };
  if (form !== FORMS.row) throw corrupt(`an upload record of unknown form ${form}`);
  return { kind: "basic", old: { version: readVersion(reader), value: reader.bytes().slice() } };
}

function writeOid(writer: ByteWriter, oid: Oid): void {
  const { epoch, sequence } = parseOid(oid);
  writer.u32(epoch).u64(BigInt(sequence));
}

function readOid(reader: ByteReader): Oid {
  return oidOf(reader.u32(), Number(reader.u64()));
}

function writeVersion(writer: ByteWriter, version: RowVersion): void {
  writer.u64(version.commit).u64(version.guid);
}

function readVersion(reader: ByteReader): RowVersion {
  return { commit: reader.u64(), guid: reader.u64() };
}

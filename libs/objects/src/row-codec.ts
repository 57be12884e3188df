import { ByteReader, ByteWriter, corrupt } from "@concord/codec";
import type { Oid } from "@concord/ports";
import { assert, unreachable } from "@concord/runtime";
import type {
  BodyRow,
  BucketRow,
  BucketSettings,
  ChecksumAlgorithm,
  DeleteMarker,
  EpochRow,
  EventRow,
  GcEntry,
  LastNumberRow,
  LifecycleRow,
  LockTimeRow,
  NamedPart,
  ObjectAcl,
  ObjectAttributes,
  ObjectVersion,
  PartRow,
  ScrubRow,
  ShardEvents,
  ShardHeader,
  StoredChecksum,
  StoredObject,
  UploadRow,
  UploadState,
  Versioning,
} from "./rows.ts";
import { readEvent, readShardEvents, writeEvent, writeShardEvents } from "./events/event-rows.ts";
import { ACL_CHARS_MAX, SHARDS_MAX, TAGS_BUCKET_MAX, TAGS_OBJECT_MAX } from "./limits.ts";
import { readLifecycle, readScrub, writeLifecycle, writeScrub } from "./pass-rows.ts";
import { needsFields, readFields, readLocking, readPartFields, writeFields, writeLocking } from "./row-fields.ts";
import { readContent, readOid, writeContent, writeOid } from "./row-content.ts";
import { readNumber, writeNumber } from "./row-numbers.ts";
import { readList, readOneOf, readOptional, readTexts, writeOneOf, writeOptional, writeTexts } from "./row-values.ts";

/** Rows on disk: version byte, kind byte, fields. Golden bytes are tested. */
const VERSION = 1;
/** Only of rows that have an ACL, which is behind the other fields: a gateway that does not know ACLs refuses them (decision 0019). */
const ACL_VERSION = 2;
/** Of objects and uploads with what a lock says of them: `row-fields.ts` (decision 0020). */
const FIELDS_VERSION = 3;

export type Row =
  | StoredObject
  | BodyRow
  | DeleteMarker
  | UploadRow
  | PartRow
  | GcEntry
  | ShardHeader
  | BucketRow
  | EpochRow
  | ScrubRow
  | LifecycleRow
  | LockTimeRow
  | EventRow
  | LastNumberRow;

const KIND_TAGS = {
  object: 1,
  upload: 2,
  part: 3,
  garbage: 4,
  header: 5,
  bucket: 6,
  epoch: 7,
  scrub: 8,
  marker: 10,
  lifecycle: 15,
  "lock-time": 18,
  event: 24,
  "last number": 25,
  body: 27,
} as const;
/** Rows that have what versioned buckets need besides: others are written as they always were. */
const VERSIONED_TAGS = { object: 9, header: 11, bucket: 12 } as const;
/** Of a bucket that its owner has configured, versioned or not. */
const CONFIGURED_TAGS = { header: 13, bucket: 14 } as const;
/** Of a bucket whose versions can be locked: a gateway that knows no locks refuses everything in it. */
const LOCKING_TAGS = { header: 16, bucket: 17 } as const;
/** Of a bucket with event rules: a gateway that does not know events refuses its writes. */
const EVENTS_TAG = 26;
const STATE_TAGS = { open: 1, completing: 2, done: 3, doneVersion: 4 } as const;
const GARBAGE_TAGS = { blobs: 1, upload: 2, "last number": 3 } as const;
// Append only: the position is what is stored.
const ALGORITHMS: readonly ChecksumAlgorithm[] = ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"];
const CHECKSUM_TYPES = ["FULL_OBJECT", "COMPOSITE"] as const;
const HEADER_STATES = ["open", "closed"] as const;
const VERSIONINGS = ["enabled", "suspended"] as const;
const BUCKET_STATES = ["making", "open", "removing", "removed", "changing"] as const;

export function encodeRow(row: Row): Uint8Array {
  const writer = new ByteWriter(expectedBytes(row));
  if (row.kind === "object" || row.kind === "upload") {
    const { owner, grants } = row.acl ?? { owner: "", grants: "" };
    assert(owner.length + grants.length <= ACL_CHARS_MAX, "an ACL in a row is within its limit");
    if (needsFields(row)) return encodeWithFields(writer, row);
    if (row.acl !== undefined) return encodeWithAcl(writer, row, row.acl);
  }
  if (row.kind === "part" && needsFields(row))
    return writeFields(writePart(writer.u8(FIELDS_VERSION).u8(KIND_TAGS.part), row), row).finish();
  writer.u8(VERSION).u8(tagOf(row));
  switch (row.kind) {
    case "object":
      writeObject(writer, row);
      if (row.version !== undefined) writeVersion(writer, row.version);
      break;
    case "marker":
      writeNumber(writer, row.modifiedMs);
      writeVersion(writer, row.version);
      break;
    case "upload":
      writeUpload(writer, row);
      break;
    case "part":
      writePart(writer, row);
      break;
    case "garbage":
      writeGarbage(writer, row);
      break;
    case "header":
      writeHeader(writer, row);
      break;
    case "bucket":
      writeBucket(writer, row);
      if (row.locking !== undefined) {
        writeOptional(writeOptional(writer, row.versioning, writeVersioning), row.settings, writeSettings);
        writeLocking(writer, row.locking);
      } else if (row.settings !== undefined) writeSettings(writeOptional(writer, row.versioning, writeVersioning), row.settings);
      else if (row.versioning !== undefined) writeVersioning(writer, row.versioning);
      break;
    case "epoch":
      writer.u32(row.epoch).text(row.instance);
      writeNumber(writer, row.reservedTo);
      writeNumber(writer, row.lowWater);
      writer.u8(row.closed ? 1 : 0);
      break;
    case "scrub":
      writeScrub(writer, row);
      break;
    case "lifecycle":
      writeLifecycle(writer, row);
      break;
    case "lock-time":
      writeNumber(writer, row.timeMs);
      break;
    case "event":
      writeEvent(writer, row);
      break;
    case "last number":
      break;
    case "body":
      writer.bytes(row.bytes);
      break;
    default:
      unreachable(row);
  }
  const bytes = writer.finish();
  assert(isMarkerRow(bytes) === (row.kind === "marker"), "I16: a delete marker is known by its first bytes");
  return bytes;
}

/** For rows that hold a body: a buffer that need not grow. */
function expectedBytes(row: Row): number {
  if (row.kind === "body") return row.bytes.length + 16;
  return row.kind === "object" && row.content.kind === "inline" ? row.content.bytes.length + 1024 : 0;
}

/** CORRUPT_DATA when it is no row of a known version. */
export function decodeRow(bytes: Uint8Array): Row {
  const reader = new ByteReader(bytes);
  const version = reader.u8();
  const read = READERS.get(version);
  if (read === undefined) throw corrupt(`a row of format version ${version}, known are ${VERSION} to ${FIELDS_VERSION}`);
  const row = read(reader, reader.u8());
  reader.end();
  return row;
}

/** By format version. */
const READERS: ReadonlyMap<number, (reader: ByteReader, tag: number) => Row> = new Map([
  [VERSION, readRow],
  [ACL_VERSION, (reader, tag) => ({ ...readWithMore(reader, tag), acl: readAcl(reader) })],
  [FIELDS_VERSION, readWithFields],
]);

function encodeWithAcl(writer: ByteWriter, row: StoredObject | UploadRow, { owner, grants }: ObjectAcl): Uint8Array {
  return writeWithMore(writer.u8(ACL_VERSION), row).text(owner).text(grants).finish();
}

function encodeWithFields(writer: ByteWriter, row: StoredObject | UploadRow): Uint8Array {
  return writeFields(writeWithMore(writer.u8(FIELDS_VERSION), row), row).finish();
}

function readWithFields(reader: ByteReader, tag: number): Row {
  if (tag === KIND_TAGS.part) return { ...readPart(reader), ...readPartFields(reader) };
  return { ...readWithMore(reader, tag), ...readFields(reader) };
}

/** A row with more behind it. */
function writeWithMore(writer: ByteWriter, row: StoredObject | UploadRow): ByteWriter {
  writer.u8(KIND_TAGS[row.kind]);
  if (row.kind === "object") {
    writeObject(writer, row);
    return writeOptional(writer, row.version, writeVersion);
  }
  writeUpload(writer, row);
  return writer;
}

function readWithMore(reader: ByteReader, tag: number): StoredObject | UploadRow {
  if (tag === KIND_TAGS.upload) return readUpload(reader);
  if (tag !== KIND_TAGS.object) throw corrupt(`a row of kind ${tag} with an ACL or other fields`);
  const object = readObject(reader);
  const version = readOptional(reader, readVersion);
  return { ...object, ...(version === undefined ? {} : { version }) };
}

function readAcl(reader: ByteReader): ObjectAcl {
  return { owner: reader.text(), grants: reader.text() };
}

/** Whether the row is a delete marker, without decoding it. */
export function isMarkerRow(bytes: Uint8Array): boolean {
  return bytes[0] === VERSION && bytes[1] === KIND_TAGS.marker;
}

/** The row, which must be of this kind: CORRUPT_DATA otherwise. */
export function decodeRowAs<Kind extends Row["kind"]>(kind: Kind, bytes: Uint8Array): Extract<Row, { readonly kind: Kind }> {
  const row = decodeRow(bytes);
  if (row.kind !== kind) throw corrupt(`a ${row.kind} row where a ${kind} row belongs`);
  return row as Extract<Row, { readonly kind: Kind }>;
}

/** Blobs that the row names, and the upload whose parts it names (OGD1: recovery and fences decide by reference). */
export function referencesOf(row: Row): { readonly oids: readonly Oid[]; readonly uploadId: bigint | undefined } {
  switch (row.kind) {
    case "object":
      if (row.content.kind === "blob") return { oids: [row.content.oid], uploadId: undefined };
      return { oids: [], uploadId: row.content.kind === "parts" ? row.content.uploadId : undefined };
    case "part":
      return { oids: [row.oid], uploadId: undefined };
    case "garbage":
      return {
        oids: row.what.kind === "blobs" ? row.what.oids : [],
        uploadId: row.what.kind === "upload" ? row.what.uploadId : undefined,
      };
    case "body":
    case "marker":
    case "upload":
    case "header":
    case "bucket":
    case "epoch":
    case "scrub":
    case "lifecycle":
    case "lock-time":
    case "event":
    case "last number":
      return { oids: [], uploadId: undefined };
    default:
      return unreachable(row);
  }
}

function readRow(reader: ByteReader, tag: number): Row {
  switch (tag) {
    case KIND_TAGS.body:
      return { kind: "body", bytes: reader.bytes() };
    case KIND_TAGS.object:
      return readObject(reader);
    case VERSIONED_TAGS.object:
      return { ...readObject(reader), version: readVersion(reader) };
    case KIND_TAGS.marker:
      return { kind: "marker", modifiedMs: readNumber(reader), version: readVersion(reader) };
    case KIND_TAGS.upload:
      return readUpload(reader);
    case KIND_TAGS.part:
      return readPart(reader);
    case KIND_TAGS.garbage:
      return readGarbage(reader);
    case KIND_TAGS.header:
      return { kind: "header", state: readOneOf(reader, HEADER_STATES), shards: reader.u32() };
    case VERSIONED_TAGS.header:
      return { kind: "header", state: readOneOf(reader, HEADER_STATES), shards: reader.u32(), versioning: readOneOf(reader, VERSIONINGS) };
    case CONFIGURED_TAGS.header:
      return readConfiguredHeader(reader);
    case LOCKING_TAGS.header:
      return {
        kind: "header",
        state: readOneOf(reader, HEADER_STATES),
        shards: reader.u32(),
        ...readVersioning(reader),
        ...readSettingsOf(reader, () => reader.u64()),
        locking: readLocking(reader),
      };
    case EVENTS_TAG:
      return readEventsHeader(reader);
    case KIND_TAGS.bucket:
      return readBucket(reader);
    case LOCKING_TAGS.bucket:
      return { ...readBucket(reader), ...readVersioning(reader), ...readSettingsOf(reader, readSettings), locking: readLocking(reader) };
    case CONFIGURED_TAGS.bucket:
      return { ...readBucket(reader), ...readVersioning(reader), settings: readSettings(reader) };
    case VERSIONED_TAGS.bucket:
      return { ...readBucket(reader), versioning: readOneOf(reader, VERSIONINGS) };
    case KIND_TAGS.epoch:
      return {
        kind: "epoch",
        epoch: reader.u32(),
        instance: reader.text(),
        reservedTo: readNumber(reader),
        lowWater: readNumber(reader),
        closed: reader.u8() === 1,
      };
    case KIND_TAGS.scrub:
      return readScrub(reader);
    case KIND_TAGS.lifecycle:
      return readLifecycle(reader);
    case KIND_TAGS["lock-time"]:
      return { kind: "lock-time", timeMs: readNumber(reader) };
    case KIND_TAGS.event:
      return readEvent(reader);
    case KIND_TAGS["last number"]:
      return { kind: "last number" };
    default:
      throw corrupt(`a row of unknown kind ${tag}`);
  }
}

function readConfiguredHeader(reader: ByteReader): ShardHeader {
  const [state, shards] = [readOneOf(reader, HEADER_STATES), reader.u32()];
  return { kind: "header", state, shards, ...readVersioning(reader), settings: reader.u64() };
}

function writeHeader(writer: ByteWriter, row: ShardHeader): void {
  writeOneOf(writer, HEADER_STATES, row.state).u32(row.shards);
  if (row.events !== undefined) writeEventsHeader(writer, row, row.events);
  else if (row.locking !== undefined) {
    writeOptional(writeOptional(writer, row.versioning, writeVersioning), row.settings, (to, number) => to.u64(number));
    writeLocking(writer, row.locking);
  } else if (row.settings !== undefined) writeOptional(writer, row.versioning, writeVersioning).u64(row.settings);
  else if (row.versioning !== undefined) writeVersioning(writer, row.versioning);
}

/** Behind state and shards. */
function writeEventsHeader(writer: ByteWriter, { versioning, settings, locking }: ShardHeader, events: ShardEvents): void {
  assert(settings !== undefined, "event rules are settings");
  writeOptional(writer, versioning, writeVersioning).u64(settings);
  writeShardEvents(writeOptional(writer, locking, writeLocking), events);
}

function readEventsHeader(reader: ByteReader): ShardHeader {
  const header = readConfiguredHeader(reader);
  const locking = readOptional(reader, readLocking);
  return { ...header, ...(locking === undefined ? {} : { locking }), events: readShardEvents(reader) };
}

function tagOf(row: Row): number {
  if (row.kind === "header" && row.events !== undefined) return EVENTS_TAG;
  if (row.kind === "object" && row.version !== undefined) return VERSIONED_TAGS.object;
  if ((row.kind === "header" || row.kind === "bucket") && row.locking !== undefined) return LOCKING_TAGS[row.kind];
  if ((row.kind === "header" || row.kind === "bucket") && row.settings !== undefined) return CONFIGURED_TAGS[row.kind];
  if (row.kind === "header" && row.versioning !== undefined) return VERSIONED_TAGS.header;
  if (row.kind === "bucket" && row.versioning !== undefined) return VERSIONED_TAGS.bucket;
  return KIND_TAGS[row.kind];
}

function writeObject(writer: ByteWriter, row: StoredObject): void {
  writeNumber(writer, row.sizeBytes);
  writer.text(row.etag);
  writeNumber(writer, row.modifiedMs);
  writeAttributes(writer, row.attributes);
  writeOptional(writer, row.checksum, writeChecksum);
  writeContent(writer, row.content);
}

function readObject(reader: ByteReader): StoredObject {
  const sizeBytes = readNumber(reader);
  const etag = reader.text();
  const modifiedMs = readNumber(reader);
  const attributes = readAttributes(reader);
  const checksum = readOptional(reader, readChecksum);
  return { kind: "object", content: readContent(reader), sizeBytes, etag, modifiedMs, attributes, checksum };
}

function writeUpload(writer: ByteWriter, row: UploadRow): void {
  writeNumber(writer, row.initiatedMs);
  writeAttributes(writer, row.attributes);
  writeOptional(writer, row.checksum, (to, { algorithm, type }) => {
    writeOneOf(writeOneOf(to, ALGORITHMS, algorithm), CHECKSUM_TYPES, type);
  });
  const { state } = row;
  writer.u8(state.kind === "done" && state.version !== undefined ? STATE_TAGS.doneVersion : STATE_TAGS[state.kind]);
  switch (state.kind) {
    case "open":
      return;
    case "completing":
      writer.u64(state.guid);
      writeNumber(writer, state.sinceMs);
      writeNamedParts(writer, state.parts);
      return;
    case "done":
      writer.u64(state.guid).text(state.etag);
      writeNumber(writer, state.doneMs);
      writeNamedParts(writer, state.parts);
      if (state.version !== undefined) writeVersion(writer, state.version);
      return;
    default:
      unreachable(state);
  }
}

function readUpload(reader: ByteReader): UploadRow {
  const initiatedMs = readNumber(reader);
  const attributes = readAttributes(reader);
  const checksum = readOptional(reader, () => ({ algorithm: readOneOf(reader, ALGORITHMS), type: readOneOf(reader, CHECKSUM_TYPES) }));
  return { kind: "upload", state: readUploadState(reader), initiatedMs, attributes, checksum };
}

function readUploadState(reader: ByteReader): UploadState {
  const tag = reader.u8();
  switch (tag) {
    case STATE_TAGS.open:
      return { kind: "open" };
    case STATE_TAGS.completing:
      return { kind: "completing", guid: reader.u64(), sinceMs: readNumber(reader), parts: readNamedParts(reader) };
    case STATE_TAGS.done:
      return readDone(reader);
    case STATE_TAGS.doneVersion:
      return { ...readDone(reader), version: readVersion(reader) };
    default:
      throw corrupt(`an upload in unknown state ${tag}`);
  }
}

function readDone(reader: ByteReader): Extract<UploadState, { readonly kind: "done" }> {
  return { kind: "done", guid: reader.u64(), etag: reader.text(), doneMs: readNumber(reader), parts: readNamedParts(reader) };
}

function writePart(writer: ByteWriter, row: PartRow): ByteWriter {
  writeOid(writer, row.oid);
  writeNumber(writer, row.lengthBytes);
  writer.text(row.etag);
  writeNumber(writer, row.modifiedMs);
  return writeOptional(writer, row.checksum, writeChecksum);
}

function readPart(reader: ByteReader): PartRow {
  return {
    kind: "part",
    oid: readOid(reader),
    lengthBytes: readNumber(reader),
    etag: reader.text(),
    modifiedMs: readNumber(reader),
    checksum: readOptional(reader, readChecksum),
  };
}

function writeGarbage(writer: ByteWriter, row: GcEntry): void {
  writer.text(row.bucket).text(row.key);
  writeNumber(writer, row.dueMs);
  writer.u8(GARBAGE_TAGS[row.what.kind]);
  if (row.what.kind !== "blobs") {
    writer.u64(row.what.kind === "upload" ? row.what.uploadId : row.what.guid);
    return;
  }
  writer.varint(row.what.oids.length);
  for (const oid of row.what.oids) writeOid(writer, oid);
}

function readGarbage(reader: ByteReader): GcEntry {
  const bucket = reader.text();
  const key = reader.text();
  const dueMs = readNumber(reader);
  const tag = reader.u8();
  if (tag === GARBAGE_TAGS.upload) return { kind: "garbage", bucket, key, dueMs, what: { kind: "upload", uploadId: reader.u64() } };
  if (tag === GARBAGE_TAGS["last number"])
    return { kind: "garbage", bucket, key, dueMs, what: { kind: "last number", guid: reader.u64() } };
  if (tag !== GARBAGE_TAGS.blobs) throw corrupt(`garbage of unknown kind ${tag}`);
  return { kind: "garbage", bucket, key, dueMs, what: { kind: "blobs", oids: readList(reader, () => readOid(reader)) } };
}

function writeBucket(writer: ByteWriter, row: BucketRow): void {
  assert(row.shards >= 1 && row.shards <= SHARDS_MAX, "OGD17: rows of a bucket are in a known number of shards");
  writer.text(row.name).text(row.tenant).text(row.region);
  writeNumber(writer, row.createdMs);
  writeOneOf(writer.u32(row.shards), BUCKET_STATES, row.state);
  assert(Object.keys(row.tags).length <= TAGS_BUCKET_MAX, "a row has no more tags than a bucket may have");
  writeTexts(writer, row.tags);
}

function readBucket(reader: ByteReader): BucketRow {
  return {
    kind: "bucket",
    name: reader.text(),
    tenant: reader.text(),
    region: reader.text(),
    createdMs: readNumber(reader),
    shards: reader.u32(),
    state: readOneOf(reader, BUCKET_STATES),
    tags: readTexts(reader),
  };
}

function writeVersioning(writer: ByteWriter, versioning: Versioning): void {
  writeOneOf(writer, VERSIONINGS, versioning);
}

function readVersioning(reader: ByteReader): Pick<BucketRow, "versioning"> {
  const versioning = readOptional(reader, () => readOneOf(reader, VERSIONINGS));
  return versioning === undefined ? {} : { versioning };
}

function writeSettings(writer: ByteWriter, { number, documents }: BucketSettings): void {
  writer.u64(number);
  writeTexts(writer, documents);
}

function readSettings(reader: ByteReader): BucketSettings {
  return { number: reader.u64(), documents: readTexts(reader) };
}

/** Where there may be none. */
function readSettingsOf<Settings>(reader: ByteReader, read: (reader: ByteReader) => Settings): { readonly settings?: Settings } {
  const settings = readOptional(reader, read);
  return settings === undefined ? {} : { settings };
}

function writeAttributes(writer: ByteWriter, attributes: ObjectAttributes): void {
  assert(Object.keys(attributes.tags).length <= TAGS_OBJECT_MAX, "a row has no more tags than an object may have");
  writeTexts(writer, attributes.headers);
  writeTexts(writer, attributes.metadata);
  writeTexts(writer, attributes.tags);
}

function readAttributes(reader: ByteReader): ObjectAttributes {
  return { headers: readTexts(reader), metadata: readTexts(reader), tags: readTexts(reader) };
}

function writeVersion(writer: ByteWriter, { commit, guid, isNull }: ObjectVersion): void {
  writer
    .u64(commit)
    .u64(guid)
    .u8(isNull ? 1 : 0);
}

function readVersion(reader: ByteReader): ObjectVersion {
  return { commit: reader.u64(), guid: reader.u64(), isNull: reader.u8() === 1 };
}

function writeChecksum(writer: ByteWriter, checksum: StoredChecksum): void {
  writeOneOf(writeOneOf(writer, ALGORITHMS, checksum.algorithm), CHECKSUM_TYPES, checksum.type).text(checksum.value);
}

function readChecksum(reader: ByteReader): StoredChecksum {
  return { algorithm: readOneOf(reader, ALGORITHMS), type: readOneOf(reader, CHECKSUM_TYPES), value: reader.text() };
}

function writeNamedParts(writer: ByteWriter, parts: readonly NamedPart[]): void {
  writer.varint(parts.length);
  let last = 0;
  for (const { number, etag } of parts) {
    assert(number > last, "OGD11: an upload names parts in their order, each once");
    last = number;
    writer.varint(number).text(etag);
  }
}

function readNamedParts(reader: ByteReader): NamedPart[] {
  return readList(reader, () => ({ number: reader.varint(), etag: reader.text() }));
}

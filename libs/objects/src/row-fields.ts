// What rows of objects and uploads have beside what every such row has, and what buckets say of locks.
import { ByteReader, ByteWriter, corrupt } from "@concord/codec";
import { assert } from "@concord/runtime";
import { LOCK_UNTIL_MS_MAX } from "./limits.ts";
import { readNumber, writeNumber } from "./row-numbers.ts";
import { writeOneOf } from "./row-values.ts";
import { encryptionBytes, readObjectEncryption, readPartEncryption } from "./encryption/row-field.ts";
import type { ObjectEncryption } from "./encryption/rows.ts";
import type { BucketLocking, ObjectAcl, ObjectLock, PartRow, Retention, RetentionMode, StoredObject } from "./rows.ts";

/**
 * Fields of format version 3: each with its tag and its length, in the order of tags, all of them known (decision 0020). A gateway that does not know
 * one refuses the row: what a lock keeps is not removed by one that knows no locks.
 */
export type RowFields = Pick<StoredObject, "acl" | "lock" | "encryption">;
export type PartFields = Pick<PartRow, "encryption">;

const ACL = 1;
const LOCK = 2;
/** One that does not know it would serve ciphertext. */
const ENCRYPTION = 3;

const MODES: readonly (RetentionMode | undefined)[] = [undefined, "GOVERNANCE", "COMPLIANCE"];
const HOLDS: readonly (ObjectLock["legalHold"] | undefined)[] = [undefined, "OFF", "ON"];
const UNITS = ["days", "years"] as const;

/** Whether a row with them is of format version 3. */
export const needsFields = ({ lock, encryption }: Omit<RowFields, "encryption"> & { readonly encryption?: unknown }): boolean =>
  lock !== undefined || encryption !== undefined;

export function writeFields(
  writer: ByteWriter,
  { acl, lock, encryption }: RowFields | (PartFields & { acl?: never; lock?: never }),
): ByteWriter {
  const fields: (readonly [tag: number, bytes: Uint8Array])[] = [];
  if (acl !== undefined) fields.push([ACL, new ByteWriter(64).text(acl.owner).text(acl.grants).finish()]);
  if (lock !== undefined) fields.push([LOCK, lockBytes(lock)]);
  if (encryption !== undefined) fields.push([ENCRYPTION, encryptionBytes(encryption)]);
  writer.varint(fields.length);
  let last = 0;
  for (const [tag, bytes] of fields) {
    assert(tag > last, "fields of a row are in the order of their tags");
    last = tag;
    writer.u8(tag).bytes(bytes);
  }
  return writer;
}

/** CORRUPT_DATA for a field that is not known, is there twice or out of order. */
export function readFields(reader: ByteReader): RowFields {
  const fields: { acl?: ObjectAcl; lock?: ObjectLock; encryption?: ObjectEncryption } = {};
  eachField(reader, (tag, value) => {
    if (tag === ACL) fields.acl = { owner: value.text(), grants: value.text() };
    else if (tag === LOCK) fields.lock = readLock(value);
    else if (tag === ENCRYPTION) fields.encryption = readObjectEncryption(value);
    else throw unknownField(tag);
  });
  return fields;
}

/** The same of a part. */
export function readPartFields(reader: ByteReader): PartFields {
  const fields: { encryption?: PartFields["encryption"] } = {};
  eachField(reader, (tag, value) => {
    if (tag !== ENCRYPTION) throw unknownField(tag);
    fields.encryption = readPartEncryption(value);
  });
  return fields as PartFields;
}

const unknownField = (tag: number): Error => corrupt(`a field of a row that is not known: ${tag}`);

function eachField(reader: ByteReader, read: (tag: number, value: ByteReader) => void): void {
  const count = reader.varint();
  let last = 0;
  for (let at = 0; at < count; at += 1) {
    const tag = reader.u8();
    if (tag <= last) throw corrupt("fields of a row that are not in order");
    last = tag;
    const value = new ByteReader(reader.bytes());
    read(tag, value);
    value.end();
  }
}

function lockBytes({ retention, legalHold }: ObjectLock): Uint8Array {
  assert(retention === undefined || retention.untilMs <= LOCK_UNTIL_MS_MAX, "OGD21: the end of a retention can be said as a date");
  const writer = writeOneOf(new ByteWriter(16), MODES, retention?.mode);
  if (retention !== undefined) writeNumber(writer, retention.untilMs);
  return writeOneOf(writer, HOLDS, legalHold).finish();
}

function readLock(reader: ByteReader): ObjectLock {
  const mode = oneOf(reader, MODES);
  const retention: Retention | undefined = mode === undefined ? undefined : { mode, untilMs: readNumber(reader) };
  const legalHold = oneOf(reader, HOLDS);
  return { ...(retention === undefined ? {} : { retention }), ...(legalHold === undefined ? {} : { legalHold }) };
}

export function writeLocking(writer: ByteWriter, { defaultRetention: rule }: BucketLocking): void {
  writeOneOf(writer, MODES, rule?.mode);
  if (rule !== undefined) writeOneOf(writer, UNITS, rule.unit).u32(rule.count);
}

export function readLocking(reader: ByteReader): BucketLocking {
  const mode = oneOf(reader, MODES);
  return mode === undefined ? {} : { defaultRetention: { mode, unit: oneOf(reader, UNITS), count: reader.u32() } };
}

function oneOf<Value>(reader: ByteReader, values: readonly Value[]): Value {
  const position = reader.u8();
  if (position >= values.length) throw corrupt(`an unknown choice ${position}`);
  return values[position]!;
}

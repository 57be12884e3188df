// What rows of objects and uploads have beside what every such row has, and what buckets say of locks.
import { ByteReader, ByteWriter, corrupt } from "@concord/codec";
import { readNumber, writeNumber } from "./row-numbers.ts";
import type { BucketLocking, ObjectAcl, ObjectLock, Retention, RetentionMode, StoredObject } from "./rows.ts";

/**
 * Fields of format version 3: each with its tag and its length, in the order of tags, all of them known (decision 0020). A gateway that does not know
 * one refuses the row: what a lock keeps is not removed by one that knows no locks.
 */
export type RowFields = Pick<StoredObject, "acl" | "lock">;

const ACL = 1;
const LOCK = 2;

const MODES: readonly (RetentionMode | undefined)[] = [undefined, "GOVERNANCE", "COMPLIANCE"];
const HOLDS: readonly (ObjectLock["legalHold"] | undefined)[] = [undefined, "OFF", "ON"];
const UNITS = ["days", "years"] as const;

/** Whether a row with them is of format version 3. */
export const needsFields = ({ lock }: RowFields): boolean => lock !== undefined;

export function writeFields(writer: ByteWriter, { acl, lock }: RowFields): ByteWriter {
  const fields: (readonly [tag: number, bytes: Uint8Array])[] = [];
  if (acl !== undefined) fields.push([ACL, new ByteWriter(64).text(acl.owner).text(acl.grants).finish()]);
  if (lock !== undefined) fields.push([LOCK, lockBytes(lock)]);
  writer.varint(fields.length);
  for (const [tag, bytes] of fields) writer.u8(tag).bytes(bytes);
  return writer;
}

/** CORRUPT_DATA for a field that is not known, is there twice or out of order. */
export function readFields(reader: ByteReader): RowFields {
  const count = reader.varint();
  const fields: { acl?: ObjectAcl; lock?: ObjectLock } = {};
  let last = 0;
  for (let at = 0; at < count; at += 1) {
    const tag = reader.u8();
    if (tag <= last) throw corrupt("fields of a row that are not in order");
    last = tag;
    const value = new ByteReader(reader.bytes());
    if (tag === ACL) fields.acl = { owner: value.text(), grants: value.text() };
    else if (tag === LOCK) fields.lock = readLock(value);
    else throw corrupt(`a field of a row that is not known: ${tag}`);
    value.end();
  }
  return fields;
}

function lockBytes({ retention, legalHold }: ObjectLock): Uint8Array {
  const writer = new ByteWriter(16).u8(MODES.indexOf(retention?.mode));
  if (retention !== undefined) writeNumber(writer, retention.untilMs);
  return writer.u8(HOLDS.indexOf(legalHold)).finish();
}

function readLock(reader: ByteReader): ObjectLock {
  const mode = oneOf(reader, MODES);
  const retention: Retention | undefined = mode === undefined ? undefined : { mode, untilMs: readNumber(reader) };
  const legalHold = oneOf(reader, HOLDS);
  return { ...(retention === undefined ? {} : { retention }), ...(legalHold === undefined ? {} : { legalHold }) };
}

export function writeLocking(writer: ByteWriter, { defaultRetention: rule }: BucketLocking): void {
  writer.u8(MODES.indexOf(rule?.mode));
  if (rule !== undefined) writer.u8(UNITS.indexOf(rule.unit)).u32(rule.count);
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

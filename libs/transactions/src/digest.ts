import { ByteWriter } from "@concord/codec";
import { encodeMutation } from "@concord/rows";
import { assert, ConcordError, TIMESTAMP_ZERO, type Checksum } from "@concord/runtime";
import type { RowCondition, TableCondition } from "@concord/schema";
import type { CellValue } from "@concord/values";
import type { TableWrite } from "./pending-rows.ts";

/** Set in the low half of a digest as they are made now. Before, the half was the length of the encoded writes, and the high one their checksum. */
const HASHED = 0x8000_0000;
const NO_WRITES = 0n;

/** The writes of a commit or execute, and its conditions: the same id with another payload is refused (TXD7). */
export interface Payload {
  readonly writes: readonly TableWrite[];
  readonly conditions: readonly TableCondition[];
  /** 64 bits; 0 = neither writes nor conditions. */
  readonly digest: bigint;
}

const NO_CONDITIONS: readonly TableCondition[] = [];

export function payloadOf(writes: readonly TableWrite[], conditions = NO_CONDITIONS): Payload {
  const digest = digestOf(writes, conditions);
  assert((digest === NO_WRITES) === (writes.length + conditions.length === 0), "TXD7: only no payload has the digest of none");
  return { writes, conditions, digest };
}

/** IDEMPOTENCY_MISMATCH unless the id came with the payload of digest `known` before. */
export function requireSamePayload(known: bigint, { writes, conditions, digest }: Payload, checksum: Checksum): void {
  if (known === digest) return;
  const isEarlier = known !== NO_WRITES && (known & BigInt(HASHED)) === 0n && conditions.length === 0;
  const isEarlierForm = isEarlier && writes.every(({ write }) => write.kind !== "insert-new");
  if (isEarlierForm && known === earlierDigestOf(writes, checksum)) return;
  throw new ConcordError("IDEMPOTENCY_MISMATCH", "the same transaction id came with other writes; use a new id");
}

function digestOf(writes: readonly TableWrite[], conditions: readonly TableCondition[]): bigint {
  if (writes.length + conditions.length === 0) return NO_WRITES;
  const hash = new Hash();
  for (const { write } of writes) {
    const { kind, key, columns } = write;
    hash.text(kind).text(key.table).values(key.partition).values(key.clustering).number(columns.length);
    for (const { column, value } of columns) hash.text(column).value(value);
  }
  for (const { condition } of conditions) addCondition(hash, condition);
  return hash.digest();
}

function addCondition(hash: Hash, condition: RowCondition): void {
  const { kind, key } = condition;
  hash.text("if").text(kind).text(key.table).values(key.partition).values(key.clustering);
  if (condition.kind === "version") hash.value({ kind: "bigint", value: condition.versionUs });
  if (condition.kind !== "equal") return;
  hash.number(condition.columns.length);
  for (const { column, value } of condition.columns) hash.text(column).value(value);
}

/** As digests were made before: outcomes of transactions of then are still asked for. */
function earlierDigestOf(writes: readonly TableWrite[], checksum: Checksum): bigint {
  const writer = new ByteWriter(512);
  for (const { write } of writes) {
    const { kind, key, columns } = write;
    const timestampUs = TIMESTAMP_ZERO;
    assert(kind !== "insert-new", "no digest of the earlier form is of a row that must be new");
    writer.bytes(encodeMutation(kind === "delete" ? { kind, key, timestampUs } : { kind, key, columns, timestampUs }));
  }
  const bytes = writer.finish();
  assert(bytes.length < HASHED, "a digest of the earlier form is known by its length");
  return (BigInt(checksum(bytes) >>> 0) << 32n) | BigInt(bytes.length);
}

/** 64 bits, not 0. */
export function hashOfText(text: string): bigint {
  return new Hash().text(text).digest();
}

const scratch = new DataView(new ArrayBuffer(8));

/** Two 32-bit hashes over the same numbers. Every part is preceded by its length or its kind, so no two payloads are the same numbers. */
class Hash {
  #first = 0x811c9dc5;
  #second = 0x9747b28c;

  /** Of a 32-bit number. */
  number(value: number): this {
    this.#first = Math.imul(this.#first ^ value, 0x01000193);
    const mixed = Math.imul(this.#second ^ value, 0x85ebca6b);
    this.#second = (mixed << 13) | (mixed >>> 19);
    return this;
  }

  text(text: string): this {
    this.number(text.length);
    for (let at = 0; at < text.length; at += 1) this.number(text.charCodeAt(at));
    return this;
  }

  values(values: readonly CellValue[]): this {
    this.number(values.length);
    for (const value of values) this.value(value);
    return this;
  }

  value(cell: CellValue | null): this {
    if (cell === null) return this.number(0);
    const { kind, value } = cell;
    this.text(kind);
    switch (typeof value) {
      case "string":
        return this.text(value);
      case "bigint":
        scratch.setBigInt64(0, value);
        return this.number(scratch.getInt32(0)).number(scratch.getInt32(4));
      case "number":
        scratch.setFloat64(0, value);
        return this.number(scratch.getInt32(0)).number(scratch.getInt32(4));
      case "boolean":
        return this.number(value ? 1 : 0);
      default:
        this.number(value.length);
        for (const byte of value) this.number(byte);
        return this;
    }
  }

  digest(): bigint {
    return (BigInt(this.#first >>> 0) << 32n) | BigInt((this.#second | HASHED) >>> 0);
  }
}

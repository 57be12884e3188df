import { ByteReader, ByteWriter, corrupt, openRecord, sealRecord } from "@concord/codec";
import type { Mutation } from "@concord/ports";
import { decodeMutation, encodeMutation } from "@concord/rows";
import { assert, timeIdFromBytes, TIMESTAMP_ZERO, type Checksum, type TimeId, type TimestampUs } from "@concord/runtime";
import { NO_OWNER } from "./owners.ts";

/**
 * The content of a group log entry: one flush. The outcome rows (TXD7) are not written out: they follow from the transactions' ids,
 * outcomes, timestamps and digests and the entry's seq (`outcomeMutations`). Version 1 carries the mutations, which its owner applies. In
 * version 3 they are left out: the entry has the rows beside its content, for the replicas to apply (TXD14). Version 2 was the same with
 * an outcome row per transaction among the rows; its readers would not find the rows of version 3, so they refuse it. Version 4 is one of
 * these with owners of transactions: entries without an owner are written as before, for readers of before. Version 5 is one of these with
 * refused transactions (UN20).
 */
export const FLUSH_FORMAT_VERSION = 5;
const OWNERS_VERSION = 4;
const REPLICAS_APPLY_VERSION = 3;
const OWNER_APPLIES_VERSION = 1;
const FLUSH_ID_BYTES = 16;
const COMMITTED = 1;
const ABORTED = 2;
const COMMITTED_FOR_OWNER = 3;
const REFUSED = 4;

/** A decided transaction in a flush: committed with its net mutations, an id that must never commit, or one whose conditions failed (UN20). */
export interface FlushedTransaction {
  readonly kind: "committed" | "aborted" | "refused";
  readonly id: TimeId;
  readonly timestampUs: TimestampUs;
  /** Of the request's payload: the same id with another payload is IDEMPOTENCY_MISMATCH. */
  readonly digest: bigint;
  /** `ownerHash` of the caller that began it, which alone may ask for its outcome; NO_OWNER: any caller. */
  readonly owner: bigint;
  readonly mutations: readonly Mutation[];
  /** `encodeRefusal` of the rows that failed; a refused one has it. */
  readonly refusal?: Uint8Array | undefined;
}

export interface FlushEntry {
  /** Random, one per flush: two different flushes never have equal bytes. */
  readonly flushId: Uint8Array;
  readonly transactions: readonly FlushedTransaction[];
}

export type WhoApplies = "owner applies" | "replicas apply";

/** One transaction's part of the entry; made when it commits, so that its size is known before it is queued. */
export function encodeFlushed(transaction: FlushedTransaction, who: WhoApplies): Uint8Array {
  const mutations = who === "owner applies" ? transaction.mutations : [];
  assert(transaction.kind === "committed" || transaction.mutations.length === 0, "an aborted or refused id writes nothing");
  assert((transaction.kind === "refused") === (transaction.refusal !== undefined), "UN20: a refused id has the rows that failed");
  assert(transaction.kind !== "aborted" || transaction.owner === NO_OWNER, "an aborted id is any caller's");
  assert(transaction.timestampUs > TIMESTAMP_ZERO, "TX7: a decision has a timestamp of its own");
  const writer = new ByteWriter(512);
  const hasOwner = transaction.owner !== NO_OWNER;
  writer.u8(tagOf(transaction.kind, hasOwner)).hex(transaction.id);
  writer.i64(transaction.timestampUs).u64(transaction.digest);
  if (transaction.refusal !== undefined) return writer.u64(transaction.owner).bytes(transaction.refusal).finish();
  if (hasOwner) writer.u64(transaction.owner);
  writer.varint(mutations.length);
  for (const mutation of mutations) writer.bytes(encodeMutation(mutation));
  return writer.finish();
}

function tagOf(kind: FlushedTransaction["kind"], hasOwner: boolean): number {
  if (kind === "refused") return REFUSED;
  if (kind === "aborted") return ABORTED;
  return hasOwner ? COMMITTED_FOR_OWNER : COMMITTED;
}

/** The whole entry from its transactions' parts, sealed. */
export function sealFlush(flushId: Uint8Array, parts: readonly Uint8Array[], who: WhoApplies, checksum: Checksum): Uint8Array {
  assert(flushId.length === FLUSH_ID_BYTES && parts.length > 0, "a flush has an id and a transaction");
  const writer = new ByteWriter(4096);
  writer.raw(flushId).varint(parts.length);
  for (const part of parts) writer.raw(part);
  const version = who === "owner applies" ? OWNER_APPLIES_VERSION : REPLICAS_APPLY_VERSION;
  const hasOwners = parts.some(([tag]) => tag === COMMITTED_FOR_OWNER);
  const hasRefused = parts.some(([tag]) => tag === REFUSED);
  return sealRecord(hasRefused ? FLUSH_FORMAT_VERSION : hasOwners ? OWNERS_VERSION : version, writer, checksum);
}

/** CORRUPT_DATA when the bytes are not a flush: a takeover stops there, it never skips an entry. */
export function openFlush(bytes: Uint8Array, checksum: Checksum): FlushEntry {
  const reader = new ByteReader(openRecord(bytes, FLUSH_FORMAT_VERSION, checksum).body);
  const flushId = reader.raw(FLUSH_ID_BYTES).slice();
  const count = reader.varint();
  const transactions: FlushedTransaction[] = [];
  for (let i = 0; i < count; i += 1) transactions.push(readFlushed(reader));
  reader.end();
  return { flushId, transactions };
}

function readFlushed(reader: ByteReader): FlushedTransaction {
  const tag = reader.u8();
  if (tag !== COMMITTED && tag !== ABORTED && tag !== COMMITTED_FOR_OWNER && tag !== REFUSED)
    throw corrupt(`outcome tag ${tag} in a flush`);
  const id = timeIdFromBytes(reader.raw(16));
  const timestampUs = reader.timestampUs();
  const digest = reader.u64();
  if (tag === REFUSED) {
    return { kind: "refused", id, timestampUs, digest, owner: reader.u64(), mutations: [], refusal: reader.bytes().slice() };
  }
  const owner = tag === COMMITTED_FOR_OWNER ? reader.u64() : NO_OWNER;
  const count = reader.varint();
  const mutations: Mutation[] = [];
  for (let i = 0; i < count; i += 1) mutations.push(decodeMutation(reader.bytes()));
  return { kind: tag === ABORTED ? "aborted" : "committed", id, timestampUs, digest, owner, mutations };
}

export function newFlushId(random: { bytes(length: number): Uint8Array }): Uint8Array {
  return random.bytes(FLUSH_ID_BYTES);
}

import { ByteReader, ByteWriter, corrupt } from "@concord/codec";
import { OUTCOME_BUCKET_MS, OUTCOMES_TABLE, type Mutation, type RowImage, type RowKey, type RowRange } from "@concord/ports";
import { liveRow } from "@concord/rows";
import {
  assert,
  ConcordError,
  isTimestampUs,
  SEQ_NONE,
  seqOf,
  timeIdFromBytes,
  timeIdMs,
  type Seq,
  type TimeId,
  type TimestampUs,
} from "@concord/runtime";
import type { CellValue } from "@concord/values";
import type { FlushedTransaction } from "./flush-entry.ts";
import { NO_OWNER } from "./owners.ts";

/**
 * Outcomes of decided transactions (TXD7). One row of OUTCOMES_TABLE has those of one flush whose ids were made in the same slice of
 * time: partition = group and bucket of the ids' time, clustering = slice, seq of the flush. Its one column, version 1:
 *   u8 version | per transaction, to the end: 16 bytes id | u8 1 committed / 2 aborted | i64 timestamp | u64 digest
 * Version 2, of rows in which a transaction has an owner, adds per transaction: u64 hash of the owner, 0 = none.
 * Version 3, of rows in which a transaction was refused, adds after that: varint length and bytes of its refusal, which is 3, 0 = none.
 * Before, each transaction had a row of its own, with its id as clustering; those are still read.
 */
const FORMAT_VERSION = 1;
const OWNERS_VERSION = 2;
const REFUSALS_VERSION = 3;
const COLUMN = "transactions";
/** Kinds by their tags. */
const KINDS: readonly (StoredOutcome["kind"] | undefined)[] = [undefined, "committed", "aborted", "refused"];
const NO_BYTES = new Uint8Array();
const OUTCOME_BYTES = 33;
const OWNER_BYTES = 8;
/** Ids of one slice are looked up with one read. */
export const OUTCOME_SLICE_MS = 100;

/** What is written down about a decided transaction. */
export interface StoredOutcome {
  readonly kind: "committed" | "aborted" | "refused";
  readonly timestampUs: TimestampUs;
  readonly seq: Seq;
  readonly digest: bigint;
  /** `ownerHash` of the caller that began it, or NO_OWNER. */
  readonly owner: bigint;
  /** Rows that failed, as `encodeRefusal` keeps them; a refused one has it. */
  readonly refusal?: Uint8Array | undefined;
}

/** Number of the slice an id belongs to. */
export function outcomeSliceOf(id: TimeId): number {
  return Math.floor(timeIdMs(id) / OUTCOME_SLICE_MS);
}

/** The outcome rows of the flush with this seq: whole rows, since no other flush writes them. */
export function outcomeMutations(group: string, transactions: readonly FlushedTransaction[], seq: Seq): Mutation[] {
  assert(seq > SEQ_NONE, "an outcome is of a logged entry");
  const slices = new Map<number, FlushedTransaction[]>();
  for (const transaction of transactions) {
    const slice = outcomeSliceOf(transaction.id);
    const others = slices.get(slice);
    if (others === undefined) slices.set(slice, [transaction]);
    else others.push(transaction);
  }
  return Array.from(slices, ([slice, own]): Mutation => {
    assert(own[0]!.timestampUs <= own.at(-1)!.timestampUs, "TX31: outcomes are in timestamp order");
    const key: RowKey = { table: OUTCOMES_TABLE, partition: partitionOf(group, slice), clustering: [bigint(BigInt(slice)), bigint(seq)] };
    const value: CellValue = { kind: "blob", value: encodeOutcomes(own) };
    return { kind: "insert", key, columns: [{ column: COLUMN, value }], timestampUs: own.at(-1)!.timestampUs };
  });
}

/** Where the outcomes of a slice's ids are. */
export function outcomeRange(group: string, slice: number, limit: number): RowRange {
  const bound = { prefix: [bigint(BigInt(slice))], inclusive: true };
  return { table: OUTCOMES_TABLE, partition: partitionOf(group, slice), lower: bound, upper: bound, reverse: false, limit };
}

/** The outcomes in a row of `outcomeRange`. CORRUPT_DATA when it says nothing we ever wrote. */
export function outcomesIn(image: RowImage): [TimeId, StoredOutcome][] {
  const seq = image.key.clustering[1];
  const value = liveRow(image)?.columns.get(COLUMN);
  if (seq?.kind !== "bigint" || value?.kind !== "blob") throw corrupt("an outcome row is incomplete");
  const reader = new ByteReader(value.value);
  const version = reader.u8();
  if (version < FORMAT_VERSION || version > REFUSALS_VERSION) throw corrupt(`an outcome row has version ${version}`);
  const outcomes: [TimeId, StoredOutcome][] = [];
  while (reader.remaining > 0) {
    const id = timeIdFromBytes(reader.raw(16));
    const tag = reader.u8();
    const kind = KINDS[tag];
    if (kind === undefined) throw corrupt(`outcome tag ${tag} in an outcome row`);
    const [timestampUs, digest] = [reader.timestampUs(), reader.u64()];
    const owner = version >= OWNERS_VERSION ? reader.u64() : NO_OWNER;
    const bytes = version >= REFUSALS_VERSION ? reader.bytes() : NO_BYTES;
    const refusal = kind === "refused" ? { refusal: bytes.slice() } : {};
    outcomes.push([id, { kind, timestampUs, seq: seqOf(seq.value), digest, owner, ...refusal }]);
  }
  return outcomes;
}

/** Of the row that a transaction had before. */
export function singleOutcomeKey(group: string, id: TimeId): RowKey {
  return { table: OUTCOMES_TABLE, partition: partitionOf(group, outcomeSliceOf(id)), clustering: [{ kind: "uuid", value: id }] };
}

/** CORRUPT_DATA when a row is there and says nothing we ever wrote. */
export function singleOutcome(image: RowImage | undefined): StoredOutcome | undefined {
  const row = liveRow(image);
  if (row === undefined) return undefined;
  const result = row.columns.get("result");
  const [timestampUs, seq, digest] = ["timestamp_us", "seq", "digest"].map((column) => {
    const value = row.columns.get(column);
    return value?.kind === "bigint" ? value.value : undefined;
  });
  const kind = result?.kind === "text" && (result.value === "committed" || result.value === "aborted") ? result.value : undefined;
  if (kind === undefined || timestampUs === undefined || !isTimestampUs(timestampUs) || seq === undefined || digest === undefined) {
    throw new ConcordError("CORRUPT_DATA", "an outcome row is incomplete");
  }
  return { kind, timestampUs, seq: seqOf(seq), digest: BigInt.asUintN(64, digest), owner: NO_OWNER };
}

function encodeOutcomes(transactions: readonly FlushedTransaction[]): Uint8Array {
  const hasRefused = transactions.some(({ kind }) => kind === "refused");
  const hasOwners = hasRefused || transactions.some(({ owner }) => owner !== NO_OWNER);
  const length = 1 + transactions.length * (OUTCOME_BYTES + (hasOwners ? OWNER_BYTES : 0));
  const writer = new ByteWriter(length).u8(hasRefused ? REFUSALS_VERSION : hasOwners ? OWNERS_VERSION : FORMAT_VERSION);
  for (const { kind, id, timestampUs, digest, owner, refusal } of transactions) {
    assert(kind !== "aborted" || owner === NO_OWNER, "an aborted id is any caller's");
    writer.hex(id).u8(KINDS.indexOf(kind));
    writer.i64(timestampUs).u64(digest);
    if (hasOwners) writer.u64(owner);
    if (hasRefused) writer.bytes(refusal ?? NO_BYTES);
  }
  const bytes = writer.finish();
  assert(hasRefused || bytes.length === length, "each outcome has its bytes in the row");
  return bytes;
}

function partitionOf(group: string, slice: number): CellValue[] {
  assert(OUTCOME_BUCKET_MS % OUTCOME_SLICE_MS === 0, "a slice of outcomes is in one bucket");
  const bucket = Math.floor((slice * OUTCOME_SLICE_MS) / OUTCOME_BUCKET_MS);
  return [{ kind: "text", value: group }, bigint(BigInt(bucket))];
}

function bigint(value: bigint): CellValue {
  return { kind: "bigint", value };
}

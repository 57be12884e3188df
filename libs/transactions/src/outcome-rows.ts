import { OUTCOME_BUCKET_MS, OUTCOMES_TABLE, type Mutation, type RowImage, type RowKey } from "@concord/ports";
import { liveRow } from "@concord/rows";
import { ConcordError, isTimestampUs, seqOf, timeIdMs, type Seq, type TimeId, type TimestampUs } from "@concord/runtime";
import type { FlushedTransaction } from "./flush-entry.ts";

/** What is written down about a decided transaction. */
export interface StoredOutcome {
  readonly kind: "committed" | "aborted";
  readonly timestampUs: TimestampUs;
  readonly seq: Seq;
  readonly digest: bigint;
}

export function outcomeKey(group: string, id: TimeId): RowKey {
  return {
    table: OUTCOMES_TABLE,
    partition: [
      { kind: "text", value: group },
      { kind: "bigint", value: BigInt(Math.floor(timeIdMs(id) / OUTCOME_BUCKET_MS)) },
    ],
    clustering: [{ kind: "uuid", value: id }],
  };
}

/** The outcome row of a transaction in the flush with this seq. */
export function outcomeMutation(group: string, transaction: FlushedTransaction, seq: Seq): Mutation {
  return {
    kind: "insert",
    key: outcomeKey(group, transaction.id),
    columns: [
      { column: "result", value: { kind: "text", value: transaction.kind } },
      { column: "timestamp_us", value: { kind: "bigint", value: transaction.timestampUs } },
      { column: "seq", value: { kind: "bigint", value: seq } },
      { column: "digest", value: { kind: "bigint", value: BigInt.asIntN(64, transaction.digest) } },
    ],
    timestampUs: transaction.timestampUs,
  };
}

/** CORRUPT_DATA when a row is there and says nothing we ever wrote. */
export function outcomeOf(image: RowImage | undefined): StoredOutcome | undefined {
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
  return { kind, timestampUs, seq: seqOf(seq), digest: BigInt.asUintN(64, digest) };
}

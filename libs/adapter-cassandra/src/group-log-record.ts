import { createHash } from "node:crypto";
import type { AppendRequest, LogEntry } from "@concord/ports";
import { assert, epochOf, seqOf, timestampUsOf, type Epoch, type Seq, type TimestampUs } from "@concord/runtime";
import { bytesOf } from "./row-codec.ts";
import type { Column, ResultRow } from "./session.ts";

/** The one header row of a group's partition, and its entries, by the column `kind`. */
export const HEADER = 0;
export const ENTRY = 1;
export const HEADER_SEQ = 0n;

/** What the header says of a group. */
export interface LogHeader {
  readonly epoch: Epoch;
  readonly owner: string;
  readonly lastSeq: Seq;
  /** Epoch of the entry at `lastSeq`. */
  readonly lastEpoch: Epoch;
  readonly ceilingUs: TimestampUs;
  readonly appliedSeq: Seq;
  readonly appliedEpoch: Epoch;
}

/** Of a group that was never raised. */
export const NO_HEADER: LogHeader = {
  epoch: epochOf(0n),
  owner: "",
  lastSeq: seqOf(0n),
  lastEpoch: epochOf(0n),
  ceilingUs: timestampUsOf(0n),
  appliedSeq: seqOf(0n),
  appliedEpoch: epochOf(0n),
};

/** Names one content: with seq and epoch it names one flush for ever (TXC2). */
const CONTENT_ID_BYTES = 16;

export function contentId({ bytes, rows }: Pick<AppendRequest, "bytes" | "rows">): Uint8Array {
  const length = Buffer.alloc(8);
  length.writeBigUInt64BE(BigInt(bytes.length));
  return createHash("sha256").update(length).update(bytes).update(rows).digest().subarray(0, CONTENT_ID_BYTES);
}

export const HEADER_COLUMNS = "epoch, owner, last_seq, last_epoch, ceiling_us, applied_seq, applied_epoch";

/** Of the row itself, or of the columns that a refused condition returns. */
export function headerOf(row: ResultRow | undefined): LogHeader {
  if (row === undefined || typeof row["epoch"] !== "bigint") return NO_HEADER;
  const owner = row["owner"];
  assert(typeof owner === "string", "a header has an owner");
  return {
    epoch: epochOf(row["epoch"]),
    owner,
    lastSeq: seqOf(numberOf(row["last_seq"])),
    lastEpoch: epochOf(numberOf(row["last_epoch"])),
    ceilingUs: timestampUsOf(numberOf(row["ceiling_us"])),
    appliedSeq: seqOf(numberOf(row["applied_seq"])),
    appliedEpoch: epochOf(numberOf(row["applied_epoch"])),
  };
}

/** What is held of an entry besides its content. */
export interface HeldEntry {
  readonly seq: Seq;
  readonly epoch: Epoch;
  readonly contentId: Uint8Array;
}

export function heldEntry(row: ResultRow): HeldEntry {
  return { seq: seqOf(numberOf(row["seq"])), epoch: epochOf(numberOf(row["epoch"])), contentId: bytesOf(row["content_id"]) };
}

export function logEntry(row: ResultRow): LogEntry {
  const { seq, epoch } = heldEntry(row);
  return { seq, epoch, bytes: plainBytes(row["content"]), rows: plainBytes(row["content_rows"]) };
}

/** Not as the Buffer the driver gives. */
function plainBytes(column: Column): Uint8Array {
  const { buffer, byteOffset, byteLength } = bytesOf(column);
  return new Uint8Array(buffer, byteOffset, byteLength);
}

function numberOf(column: Column): bigint {
  assert(typeof column === "bigint", "the column is a bigint");
  return column;
}

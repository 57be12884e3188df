import type { AdvanceRequest, AppendRequest, DecidedMark, GroupOwner } from "@concord/ports";
import { ConcordError, toConcordError } from "@concord/runtime";
import { ENTRY_BYTES_MAX, EPOCH_MAX, GROUP_BYTES_MAX, LOG_READ_ENTRIES_MAX, OWNER_BYTES_MAX, SEQ_MAX, TAIL_ENTRIES_MAX } from "./limits.ts";
import type { LogAppendRequest, LogReadRequest } from "./replica.ts";

/** Throws of rows for which `RowsOf` would throw. */
export type CheckRows = (rows: Uint8Array) => void;

/** Refusals of what coordinators and peers send: nothing is changed, the message names the field. */
const encoder = new TextEncoder();

export function encodedName(group: string): Uint8Array {
  return checkText("group", group, GROUP_BYTES_MAX);
}

export function checkOwned(request: GroupOwner): void {
  encodedName(request.group);
  checkText("owner", request.owner, OWNER_BYTES_MAX);
  checkRange("epoch", request.epoch, 1n, EPOCH_MAX);
}

/** A coordinator's append, before it goes to the replicas. */
export function checkAppendRequest(request: AppendRequest): void {
  checkOwned(request);
  checkRange("seq", request.seq, 1n, SEQ_MAX);
  checkRange("previous_epoch", request.previousEpoch, 0n, request.epoch);
  if ((request.seq === 1n) !== (request.previousEpoch === 0n)) throw malformed("previous_epoch", "is 0 for seq 1 and only there");
  checkDecided(request, request.decided);
  if (request.decided.seq >= request.seq) throw malformed("decided.seq", "is not below seq");
  checkContent("content", request.bytes, request.rows);
}

export function checkAppend(request: LogAppendRequest, checkRows: CheckRows): void {
  checkOwned(request);
  checkRange("previous_epoch", request.previousEpoch, 0n, request.epoch);
  checkDecided(request, request.decided);
  if (request.entries.length === 0) throw malformed("entries", "are missing");
  if (request.entries.length > TAIL_ENTRIES_MAX + 1) throw tooMuch("entries", TAIL_ENTRIES_MAX + 1, request.entries.length);
  let expected: bigint | undefined = request.entries[0]?.seq;
  for (const entry of request.entries) {
    checkRange("entries.seq", entry.seq, 1n, SEQ_MAX);
    if (entry.seq !== expected) throw malformed("entries.seq", "leaves a gap");
    checkRange("entries.epoch", entry.epoch, 1n, request.epoch);
    checkContent("entries.content", entry.bytes, entry.rows);
    try {
      checkRows(entry.rows);
    } catch (thrown) {
      throw malformed("entries.rows", `of entry ${entry.seq} do not decode: ${toConcordError(thrown).message}`);
    }
    expected = entry.seq + 1n;
  }
}

export function checkRead(request: LogReadRequest): void {
  encodedName(request.group);
  checkRange("from_seq", request.fromSeq, 0n, SEQ_MAX);
  if (request.limit < 1 || request.limit > LOG_READ_ENTRIES_MAX) throw tooMuch("limit", LOG_READ_ENTRIES_MAX, request.limit);
}

export function checkAdvance(request: AdvanceRequest): void {
  checkOwned(request);
  checkDecided(request, request.decided);
}

function checkDecided({ epoch }: GroupOwner, decided: DecidedMark): void {
  checkRange("decided.seq", decided.seq, 0n, SEQ_MAX);
  checkRange("decided.epoch", decided.epoch, 0n, epoch);
  if ((decided.seq === 0n) !== (decided.epoch === 0n)) throw malformed("decided.epoch", "is 0 for seq 0 and only there");
}

function checkText(field: string, text: string, bytesMax: number): Uint8Array {
  if (text === "") throw malformed(field, "is missing");
  const bytes = encoder.encode(text);
  if (bytes.length > bytesMax) throw tooMuch(field, bytesMax, bytes.length);
  return bytes;
}

function checkContent(field: string, bytes: Uint8Array, rows: Uint8Array): void {
  if (bytes.length === 0) throw malformed(field, "is empty");
  const size = bytes.length + rows.length;
  if (size > ENTRY_BYTES_MAX) throw tooMuch(field, ENTRY_BYTES_MAX, size);
}

function checkRange(field: string, value: bigint, least: bigint, largest: bigint): void {
  if (value < least || value > largest) throw malformed(field, `is ${value}, not between ${least} and ${largest}`);
}

function malformed(field: string, what: string): ConcordError {
  return new ConcordError("MALFORMED_REQUEST", `${field} ${what}`, { metadata: { field } });
}

function tooMuch(field: string, limit: number, value: number): ConcordError {
  const metadata = { field, limit: String(limit), value: String(value) };
  return new ConcordError("LIMIT_EXCEEDED", `${field} is ${value}, at most ${limit}`, { metadata });
}

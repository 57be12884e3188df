import type { AppendRequest, GroupOwner, TrimRequest } from "@concord/ports";
import { ConcordError } from "@concord/runtime";
import { ENTRY_BYTES_MAX, EPOCH_MAX, GROUP_BYTES_MAX, LOG_READ_ENTRIES_MAX, OWNER_BYTES_MAX, SEQ_MAX, TAIL_ENTRIES_MAX } from "./limits.ts";
import type { LogAppendRequest, LogReadRequest } from "./replica.ts";

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
  checkContent("content", request.bytes);
}

export function checkAppend(request: LogAppendRequest): void {
  checkOwned(request);
  checkRange("previous_epoch", request.previousEpoch, 0n, request.epoch);
  checkRange("applied_seq", request.appliedSeq, 0n, SEQ_MAX);
  checkRange("applied_epoch", request.appliedEpoch, 0n, request.epoch);
  if (request.entries.length === 0 && request.appliedSeq === 0n) throw malformed("entries", "are missing");
  if (request.entries.length > TAIL_ENTRIES_MAX + 1) throw tooMuch("entries", TAIL_ENTRIES_MAX + 1, request.entries.length);
  let expected: bigint | undefined = request.entries[0]?.seq;
  for (const entry of request.entries) {
    checkRange("entries.seq", entry.seq, 1n, SEQ_MAX);
    if (entry.seq !== expected) throw malformed("entries.seq", "leaves a gap");
    checkRange("entries.epoch", entry.epoch, 1n, request.epoch);
    checkContent("entries.content", entry.bytes);
    expected = entry.seq + 1n;
  }
}

export function checkRead(request: LogReadRequest): void {
  encodedName(request.group);
  checkRange("from_seq", request.fromSeq, 0n, SEQ_MAX);
  if (request.limit < 1 || request.limit > LOG_READ_ENTRIES_MAX) throw tooMuch("limit", LOG_READ_ENTRIES_MAX, request.limit);
}

export function checkTrim(request: TrimRequest): void {
  checkOwned(request);
  checkRange("applied_seq", request.appliedSeq, 0n, SEQ_MAX);
  checkRange("applied_epoch", request.appliedEpoch, 0n, request.epoch);
  if ((request.appliedSeq === 0n) !== (request.appliedEpoch === 0n))
    throw malformed("applied_epoch", "is 0 for applied_seq 0 and only there");
}

function checkText(field: string, text: string, bytesMax: number): Uint8Array {
  if (text === "") throw malformed(field, "is missing");
  const bytes = encoder.encode(text);
  if (bytes.length > bytesMax) throw tooMuch(field, bytesMax, bytes.length);
  return bytes;
}

function checkContent(field: string, bytes: Uint8Array): void {
  if (bytes.length === 0) throw malformed(field, "is empty");
  if (bytes.length > ENTRY_BYTES_MAX) throw tooMuch(field, ENTRY_BYTES_MAX, bytes.length);
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

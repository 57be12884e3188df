import type { AdvanceRequest, AppendRequest, DecidedMark, GroupOwner } from "@concord/ports";
import { ConcordError } from "@concord/runtime";
import { ENTRY_BYTES_MAX, NAME_BYTES_MAX } from "./limits.ts";

/** Cassandra's bigint is signed; the driver cuts what is larger. */
const I64_MAX = (1n << 63n) - 1n;

export function checkGroup(group: string): void {
  checkName("group", group);
}

export function checkOwned({ group, epoch, owner }: GroupOwner): void {
  checkGroup(group);
  checkName("owner", owner);
  checkNumber("epoch", epoch, 1n);
}

export function checkAppend(request: AppendRequest): void {
  checkOwned(request);
  checkNumber("seq", request.seq, 1n);
  checkNumber("previousEpoch", request.previousEpoch, 0n);
  if ((request.seq === 1n) !== (request.previousEpoch === 0n)) throw malformed("previousEpoch", "is 0 for seq 1 and only there");
  checkMark(request.decided);
  if (request.decided.seq >= request.seq) throw malformed("decided.seq", "is not below seq");
  if (request.bytes.length === 0) throw malformed("bytes", "are missing");
  const size = request.bytes.length + request.rows.length;
  if (size > ENTRY_BYTES_MAX) throw tooLarge("bytes", ENTRY_BYTES_MAX, size);
}

export function checkAdvance(request: AdvanceRequest): void {
  checkOwned(request);
  checkMark(request.decided);
}

function checkMark({ seq, epoch }: DecidedMark): void {
  checkNumber("decided.seq", seq, 0n);
  checkNumber("decided.epoch", epoch, 0n);
}

function checkName(field: string, name: string): void {
  if (name === "") throw malformed(field, "is missing");
  const bytes = Buffer.byteLength(name);
  if (bytes > NAME_BYTES_MAX) throw tooLarge(field, NAME_BYTES_MAX, bytes);
}

function checkNumber(field: string, value: bigint, least: bigint): void {
  if (value < least || value > I64_MAX) throw malformed(field, `is ${value}, not between ${least} and ${I64_MAX}`);
}

function malformed(field: string, what: string): ConcordError {
  return new ConcordError("MALFORMED_REQUEST", `${field} ${what}`, { metadata: { field } });
}

function tooLarge(field: string, limit: number, value: number): ConcordError {
  const metadata = { field, limit: String(limit), value: String(value) };
  return new ConcordError("LIMIT_EXCEEDED", `${field} is ${value} bytes, at most ${limit}`, { metadata });
}

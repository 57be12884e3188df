/** Numbers of the group log come as plain bigints: here they become epochs, seqs and timestamps, or are refused. */
import type { AdvanceRequest, GroupOwner, LogPosition } from "@concord/ports";
import { READ_AFTER_MAX } from "../limits.ts";
import { limitExceeded } from "./checks.ts";
import { ConcordError, epochOf, isTimestampUs, seqOf, type TimestampUs } from "@concord/runtime";

type Plain<Message> = { readonly [Field in keyof Message]: Message[Field] extends bigint ? bigint : Message[Field] };

export function ownerFromWire({ group, epoch, owner }: Plain<GroupOwner>): GroupOwner {
  return { group, epoch: epochOf(epoch), owner };
}

export function ceilingFromWire(timestampCeilingUs: bigint): TimestampUs {
  return timestampUsFromWire(timestampCeilingUs, "timestamp_ceiling_us");
}

export function timestampUsFromWire(value: bigint, field: string): TimestampUs {
  if (isTimestampUs(value)) return value;
  throw new ConcordError("MALFORMED_REQUEST", `${field} is ${value}, below 0`, { metadata: { field } });
}

/** On the wire a mark is called what it was before replicas applied rows. */
export function advanceFromWire(
  request: Plain<GroupOwner> & { readonly appliedSeq: bigint; readonly appliedEpoch: bigint },
): AdvanceRequest {
  return { ...ownerFromWire(request), decided: { seq: seqOf(request.appliedSeq), epoch: epochOf(request.appliedEpoch) } };
}

/** Commits that a reader has seen. */
export function positionsFromWire(after: readonly { readonly group: string; readonly seq: bigint }[]): LogPosition[] {
  if (after.length > READ_AFTER_MAX) throw limitExceeded("READ_AFTER_MAX", READ_AFTER_MAX, `${after.length} commits to be seen`);
  return after.map(({ group, seq }) => ({ group, seq: seqOf(seq) }));
}

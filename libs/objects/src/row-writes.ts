// Versions of rows, and the writes that carry them.
import type { MetadataWrite, RowVersion } from "@concord/ports";
import { assert, type Clock } from "@concord/runtime";
import { encodeRow, type Row } from "./row-codec.ts";

/** The version of the next write of a row: grows per row whatever clocks do (OGD5). */
export function nextVersion(observed: RowVersion | undefined, clock: Clock, guid: bigint): RowVersion {
  return { commit: nextCommit(observed, clock), guid };
}

/** The same row under a higher number: a commit conditional on the version before must fail. The GUID stays its writer's. */
export function raisedVersion(observed: RowVersion, clock: Clock): RowVersion {
  const commit = nextCommit(observed, clock);
  assert(commit > observed.commit, "I3: a raised number fences what saw the one before");
  return { commit, guid: observed.guid };
}

export function putRow(key: Uint8Array, version: RowVersion, row: Row): MetadataWrite {
  return { kind: "put", row: { key, version, value: encodeRow(row) } };
}

function nextCommit(observed: RowVersion | undefined, clock: Clock): bigint {
  const now = clock.nowUs();
  return observed === undefined || observed.commit < now ? now : observed.commit + 1n;
}

import type { ReplicaLogState } from "@concord/group-log";
import type { LogEntry } from "@concord/ports";
import type * as wire from "@concord/protos-storage";
import { ConcordError, epochOf, isTimestampUs, seqOf } from "@concord/runtime";

export function logStateToWire(state: ReplicaLogState): wire.ReplicaLogState {
  return { ...state, entries: state.entries.map(entryToWire) };
}

export function logStateFromWire(state: wire.ReplicaLogState | null): ReplicaLogState {
  if (state === null) throw new ConcordError("INTERNAL", "a peer answered without its log state");
  const { timestampCeilingUs } = state;
  if (!isTimestampUs(timestampCeilingUs)) throw new ConcordError("INTERNAL", `a peer answered with a ceiling of ${timestampCeilingUs} us`);
  return {
    promisedEpoch: epochOf(state.promisedEpoch),
    owner: state.owner,
    appliedSeq: seqOf(state.appliedSeq),
    appliedEpoch: epochOf(state.appliedEpoch),
    lastSeq: seqOf(state.lastSeq),
    lastEpoch: epochOf(state.lastEpoch),
    timestampCeilingUs,
    droppedSeq: seqOf(state.droppedSeq),
    entries: state.entries.map(entryFromWire),
  };
}

export function entryToWire({ seq, epoch, bytes, rows }: LogEntry): wire.ReplicaLogEntry {
  return { seq, epoch, content: bytes, rows };
}

/** Copies: views would keep the whole frame in memory for as long as the entry lives. */
export function entryFromWire({ seq, epoch, content, rows }: wire.ReplicaLogEntry): LogEntry {
  return { seq: seqOf(seq), epoch: epochOf(epoch), bytes: Uint8Array.from(content), rows: Uint8Array.from(rows) };
}

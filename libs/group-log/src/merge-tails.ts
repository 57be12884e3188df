import { compareBytes } from "@concord/codec";
import type { LogEntry, LogTail } from "@concord/ports";
import { assert, nextSeq, TIMESTAMP_ZERO } from "@concord/runtime";
import type { ReplicaLogState } from "./replica.ts";

/**
 * The tail a new owner must finish, out of the tails of a majority that promised it (TXR3): it starts at the largest applied watermark;
 * per seq the entry with the highest epoch. A replica whose entry differs from the chosen one has followed a history that was not
 * decided: what it holds after that is not looked at (I5).
 */
export function mergeTails(states: readonly ReplicaLogState[]): LogTail {
  assert(states.length > 0, "a majority promised");
  const base = states.reduce(largerBase);
  let timestampCeilingUs = TIMESTAMP_ZERO;
  for (const state of states) if (state.timestampCeilingUs > timestampCeilingUs) timestampCeilingUs = state.timestampCeilingUs;
  assert(
    states.every((state) => state.appliedSeq <= base.appliedSeq && state.timestampCeilingUs <= timestampCeilingUs),
    "TXR3: the tail starts at the largest watermark, under the largest ceiling",
  );
  let followed = states.map((state) => new Map(state.entries.map((entry) => [entry.seq, entry])));
  const entries: LogEntry[] = [];
  for (let seq = nextSeq(base.appliedSeq); ; seq = nextSeq(seq)) {
    const chosen = highest(followed.map((tail) => tail.get(seq)));
    if (chosen === undefined) break;
    entries.push(chosen);
    followed = followed.filter((tail) => agrees(tail.get(seq), chosen));
  }
  assert(
    entries.every((entry, at) => entry.seq === base.appliedSeq + BigInt(at + 1)),
    "I3: a tail has no gaps",
  );
  return { appliesRows: true, appliedSeq: base.appliedSeq, appliedEpoch: base.appliedEpoch, entries, timestampCeilingUs };
}

function largerBase(left: ReplicaLogState, right: ReplicaLogState): ReplicaLogState {
  if (left.appliedSeq !== right.appliedSeq) return left.appliedSeq > right.appliedSeq ? left : right;
  return left.appliedEpoch >= right.appliedEpoch ? left : right;
}

function highest(entries: readonly (LogEntry | undefined)[]): LogEntry | undefined {
  let chosen: LogEntry | undefined;
  for (const entry of entries) {
    if (entry === undefined) continue;
    if (chosen === undefined || entry.epoch > chosen.epoch) chosen = entry;
  }
  return chosen;
}

function agrees(entry: LogEntry | undefined, chosen: LogEntry): boolean {
  if (entry === undefined) return false;
  const same = compareBytes(entry.bytes, chosen.bytes) === 0;
  assert(same || entry.epoch !== chosen.epoch, "one content per (seq, epoch) (I2)");
  return same;
}

import { compareBytes } from "@concord/codec";
import type { LogEntry } from "@concord/ports";
import {
  assert,
  ConcordError,
  EPOCH_NONE,
  SEQ_NONE,
  seqOf,
  TIMESTAMP_ZERO,
  type Epoch,
  type Seq,
  type TimestampUs,
} from "@concord/runtime";
import { TAIL_BYTES_MAX, TAIL_ENTRIES_MAX } from "./limits.ts";
import type { LogAppendRequest, ReplicaLogState } from "./replica.ts";

/** The part of a group's state that is one record on disk. */
export interface GroupHeader {
  readonly promisedEpoch: Epoch;
  readonly owner: string;
  readonly appliedSeq: Seq;
  readonly appliedEpoch: Epoch;
  readonly timestampCeilingUs: TimestampUs;
}

/** One replica's state of one group. Values, never changed in place: a step that fails leaves no trace. */
export interface GroupState extends GroupHeader {
  /** Seqs appliedSeq + 1, appliedSeq + 2, ... without gaps (I3). */
  readonly entries: readonly LogEntry[];
  readonly tailBytes: number;
}

export const EMPTY_GROUP: GroupState = {
  promisedEpoch: EPOCH_NONE,
  owner: "",
  appliedSeq: SEQ_NONE,
  appliedEpoch: EPOCH_NONE,
  timestampCeilingUs: TIMESTAMP_ZERO,
  entries: [],
  tailBytes: 0,
};

/** A new state and which seqs' records differ from the old one's. */
export interface Change {
  readonly state: GroupState;
  readonly written: readonly LogEntry[];
  readonly dropped: readonly Seq[];
}

export type Acceptance = ({ readonly kind: "accepted" } & Change) | { readonly kind: "fenced" } | { readonly kind: "gap" };

export function lastSeq(state: GroupState): Seq {
  return seqOf(state.appliedSeq + BigInt(state.entries.length));
}

export function lastEpoch(state: GroupState): Epoch {
  return state.entries.at(-1)?.epoch ?? state.appliedEpoch;
}

export function describeState(state: GroupState, entries: readonly LogEntry[]): ReplicaLogState {
  const { promisedEpoch, owner, appliedSeq, appliedEpoch, timestampCeilingUs } = state;
  const last = { lastSeq: lastSeq(state), lastEpoch: lastEpoch(state) };
  return { promisedEpoch, owner, appliedSeq, appliedEpoch, ...last, timestampCeilingUs, entries };
}

/** An epoch is promised when it is above the promised one, or again to its owner: one owner per epoch (I2, TXR1). */
export function canPromise(state: GroupState, epoch: Epoch, owner: string): boolean {
  return epoch > state.promisedEpoch || isPromised(state, epoch, owner);
}

export function isPromised(state: GroupState, epoch: Epoch, owner: string): boolean {
  return epoch === state.promisedEpoch && owner === state.owner;
}

/**
 * The acceptance rule (TXR2): the caller owns the promised epoch, and what comes before the first entry is applied here or held
 * under the epoch the caller names (I4).
 */
export function acceptEntries(before: GroupState, request: LogAppendRequest): Acceptance {
  if (!isPromised(before, request.epoch, request.owner)) return { kind: "fenced" };
  const based = withBase(before, request.appliedSeq, request.appliedEpoch);
  assert(based.state.promisedEpoch === request.epoch, "I4: accepted only under the promised epoch");
  const first = request.entries[0];
  if (first !== undefined && !connects(based.state, first.seq, request.previousEpoch)) return { kind: "gap" };
  let state = raiseCeiling(based.state, request.timestampCeilingUs);
  const written: LogEntry[] = [];
  const dropped = [...based.dropped];
  for (const entry of request.entries) {
    if (entry.seq <= state.appliedSeq) continue;
    const placed = place(state, entry);
    state = placed.state;
    written.push(...placed.written);
    dropped.push(...placed.dropped);
  }
  refuseOverload(before, state);
  assert(state.appliedSeq >= before.appliedSeq && state.timestampCeilingUs >= before.timestampCeilingUs, "applied and ceiling only grow");
  assert(lastEpoch(state) <= state.promisedEpoch, "no entry is of an epoch after the promised one (I2)");
  return { kind: "accepted", state, written, dropped: dropped.filter((seq) => seq <= state.appliedSeq || seq > lastSeq(state)) };
}

/** Everything up to `seq` is applied at quorum: forget it here. */
export function withBase(state: GroupState, seq: Seq, epoch: Epoch): Change {
  if (seq <= state.appliedSeq) return { state, written: [], dropped: [] };
  const covered = state.entries.filter((entry) => entry.seq <= seq);
  const entries = state.entries.slice(covered.length);
  assert(entries.length === 0 || entries[0]!.seq === seq + 1n, "the tail begins after what is applied (I3)");
  const based = { ...state, appliedSeq: seq, appliedEpoch: epoch, entries, tailBytes: bytesOf(entries) };
  return { state: based, written: [], dropped: covered.map((entry) => entry.seq) };
}

/**
 * Notes a trim. Only a replica that holds the entry under that epoch, or a newer one, drops anything: another one lacks
 * entries and learns the base when it catches up.
 */
export function trimTo(state: GroupState, seq: Seq, epoch: Epoch): Change {
  const held = entryAt(state, seq);
  if (held === undefined || held.epoch < epoch) return { state, written: [], dropped: [] };
  return withBase(state, seq, epoch);
}

export function entryAt(state: GroupState, seq: Seq): LogEntry | undefined {
  if (seq <= state.appliedSeq || seq > lastSeq(state)) return undefined;
  const entry = state.entries[Number(seq - state.appliedSeq) - 1];
  assert(entry !== undefined && entry.seq === seq, "a tail has no gaps (I3)");
  return entry;
}

function connects(state: GroupState, firstSeq: Seq, previousEpoch: Epoch): boolean {
  if (firstSeq <= state.appliedSeq + 1n) return true;
  return entryAt(state, seqOf(firstSeq - 1n))?.epoch === previousEpoch;
}

/**
 * Puts one entry in its place. An entry of an older epoch with the same bytes is the same decision under a newer promise: what
 * follows it stays. With other bytes it was never decided, so nothing built on it was: what follows it is dropped (I5).
 */
function place(state: GroupState, entry: LogEntry): Change {
  const held = entryAt(state, entry.seq);
  if (held === undefined) {
    assert(entry.seq === lastSeq(state) + 1n, "entries are placed without gaps (I3)");
    return { state: withEntries(state, [...state.entries, entry]), written: [entry], dropped: [] };
  }
  const same = compareBytes(held.bytes, entry.bytes) === 0;
  if (held.epoch >= entry.epoch) {
    if (!same) throw otherContent(entry);
    return { state, written: [held], dropped: [] };
  }
  const index = Number(entry.seq - state.appliedSeq) - 1;
  assert(state.entries[index] === held, "an entry is replaced in its place (I5)");
  const before = state.entries.slice(0, index);
  const after = state.entries.slice(index + 1);
  if (same) return { state: withEntries(state, [...before, entry, ...after]), written: [entry], dropped: [] };
  return { state: withEntries(state, [...before, entry]), written: [entry], dropped: after.map(({ seq }) => seq) };
}

function withEntries(state: GroupState, entries: readonly LogEntry[]): GroupState {
  return { ...state, entries, tailBytes: bytesOf(entries) };
}

function raiseCeiling(state: GroupState, ceilingUs: TimestampUs): GroupState {
  return ceilingUs > state.timestampCeilingUs ? { ...state, timestampCeilingUs: ceilingUs } : state;
}

function bytesOf(entries: readonly LogEntry[]): number {
  let bytes = 0;
  for (const entry of entries) bytes += entry.bytes.length;
  return bytes;
}

function refuseOverload(before: GroupState, after: GroupState): void {
  const grew = after.entries.length > before.entries.length || after.tailBytes > before.tailBytes;
  if (!grew || (after.entries.length <= TAIL_ENTRIES_MAX && after.tailBytes <= TAIL_BYTES_MAX)) return;
  const metadata = { limit: "TAIL_ENTRIES_MAX", entries: String(after.entries.length), bytes: String(after.tailBytes) };
  throw new ConcordError("OVERLOADED", "the group's log is full until its owner trims what is applied", { metadata });
}

function otherContent(entry: LogEntry): ConcordError {
  const metadata = { seq: String(entry.seq), epoch: String(entry.epoch) };
  return new ConcordError("IDEMPOTENCY_MISMATCH", `entry ${entry.seq} is held with other content`, { metadata });
}

import { compareBytes } from "@concord/codec";
import type { DecidedMark, LogEntry } from "@concord/ports";
import {
  assert,
  ConcordError,
  EPOCH_NONE,
  nextSeq,
  SEQ_NONE,
  seqOf,
  TIMESTAMP_ZERO,
  type Epoch,
  type Seq,
  type TimestampUs,
} from "@concord/runtime";
import { TAIL_BYTES_MAX, TAIL_ENTRIES_MAX } from "./limits.ts";
import { mergeTails } from "./merge-tails.ts";
import type { LogAppendRequest, ReplicaLogState } from "./replica.ts";

/** The part of a group's state that is one record on disk. */
export interface GroupHeader {
  readonly promisedEpoch: Epoch;
  readonly owner: string;
  /** Everything up to here is decided, and its rows are applied here (I8). */
  readonly appliedSeq: Seq;
  readonly appliedEpoch: Epoch;
  readonly timestampCeilingUs: TimestampUs;
  /** Entries up to here are gone; those from here to `appliedSeq` are kept for replicas that lack them, on disk only. */
  readonly droppedSeq: Seq;
}

/** One replica's state of one group. Values, never changed in place: a step that fails leaves no trace. */
export interface GroupState extends GroupHeader {
  /** The tail: seqs appliedSeq + 1, appliedSeq + 2, ... without gaps (I3). */
  readonly entries: readonly LogEntry[];
  readonly tailBytes: number;
}

export const EMPTY_GROUP: GroupState = {
  promisedEpoch: EPOCH_NONE,
  owner: "",
  appliedSeq: SEQ_NONE,
  appliedEpoch: EPOCH_NONE,
  timestampCeilingUs: TIMESTAMP_ZERO,
  droppedSeq: SEQ_NONE,
  entries: [],
  tailBytes: 0,
};

/** A new state, which seqs' records differ from the old one's, and the entries whose rows are to be applied with it, in order. */
export interface Change {
  readonly state: GroupState;
  readonly written: readonly LogEntry[];
  readonly dropped: readonly Seq[];
  readonly applied: readonly LogEntry[];
}

export type Acceptance = ({ readonly kind: "accepted" } & Change) | { readonly kind: "fenced" } | { readonly kind: "gap" };

export function lastSeq(state: GroupState): Seq {
  return seqOf(state.appliedSeq + BigInt(state.entries.length));
}

export function lastEpoch(state: GroupState): Epoch {
  return state.entries.at(-1)?.epoch ?? state.appliedEpoch;
}

export function describeState(state: GroupState, entries: readonly LogEntry[]): ReplicaLogState {
  const { promisedEpoch, owner, appliedSeq, appliedEpoch, timestampCeilingUs, droppedSeq } = state;
  assert(droppedSeq <= appliedSeq, "I9: only applied entries are dropped");
  const last = { lastSeq: lastSeq(state), lastEpoch: lastEpoch(state) };
  return { promisedEpoch, owner, appliedSeq, appliedEpoch, ...last, timestampCeilingUs, droppedSeq, entries };
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
 * under the epoch the caller names (I4). Then the caller's mark moves this replica on (I8).
 */
export function acceptEntries(before: GroupState, request: LogAppendRequest): Acceptance {
  if (!isPromised(before, request.epoch, request.owner)) return { kind: "fenced" };
  const first = request.entries[0];
  assert(first !== undefined, "an append has an entry");
  if (!connects(before, first.seq, request.previousEpoch)) return { kind: "gap" };
  const placed = placeAll(raiseCeiling(before, request.timestampCeilingUs), request.entries, request.decided.seq);
  const { state, applied } = markDecided(placed.state, request.decided);
  refuseOverload(before, state);
  assert(state.appliedSeq >= before.appliedSeq && state.timestampCeilingUs >= before.timestampCeilingUs, "applied and ceiling only grow");
  assert(lastEpoch(state) <= state.promisedEpoch, "no entry is of an epoch after the promised one (I2)");
  assert(lastSeq(state) >= request.entries.at(-1)!.seq, "I4: what is accepted is held, or was applied");
  assert(isPromised(state, before.promisedEpoch, before.owner), "I6: no append makes its sender the owner");
  return { kind: "accepted", ...placed, state, applied };
}

/**
 * Applies up to the owner's mark, as far as entries here were accepted under the mark's epoch or a newer one: below such an entry lies
 * its owner's whole history (I4), above it may lie another one (I8).
 */
export function markDecided(state: GroupState, { seq, epoch }: DecidedMark): Change {
  let reached = seq < lastSeq(state) ? seq : lastSeq(state);
  while (reached > state.appliedSeq && entryAt(state, reached)!.epoch < epoch) reached = seqOf(reached - 1n);
  const change = applyTo(state, reached);
  assert(change.applied.length === 0 || change.state.appliedSeq <= seq, "I8: nothing above the owner's mark is applied");
  return change;
}

/**
 * Learns from a peer's state, which was read from `appliedSeq + 1` on: what the peer has applied is decided; and so is, on a ring of
 * three, what two replicas hold under the epoch that both promise (TXR2): an entry of an older epoch may be a copy that was never
 * accepted here (`restoreGroup`). Undefined: the peer has dropped what is lacking here, or is behind.
 */
export function learnFrom(before: GroupState, peer: ReplicaLogState): Change | undefined {
  const decided = peer.entries.filter(({ seq }) => seq > before.appliedSeq && seq <= peer.appliedSeq);
  if (decided.length > 0 && decided[0]!.seq !== before.appliedSeq + 1n) return undefined;
  const placed = placeAll(promiseLate(before, peer, decided), decided, peer.appliedSeq);
  let reached = decided.at(-1)?.seq ?? before.appliedSeq;
  if (before.promisedEpoch === peer.promisedEpoch) {
    const isShared = ({ seq, epoch }: LogEntry): boolean => epoch === peer.promisedEpoch && entryAt(placed.state, seq)?.epoch === epoch;
    for (const entry of peer.entries) if (entry.seq > reached && isShared(entry)) reached = entry.seq;
  }
  if (reached === before.appliedSeq) return undefined;
  const { state, applied } = applyTo(raiseCeiling(placed.state, peer.timestampCeilingUs), reached);
  assert(state.appliedSeq === reached && state.appliedSeq > before.appliedSeq, "I8: what is learnt is applied, and never taken back");
  assert(lastEpoch(state) <= state.promisedEpoch, "I2: no entry is of an epoch after the promised one");
  return { ...placed, state, applied };
}

/**
 * Of a replica that may have forgotten what it acknowledged, and has learnt what both peers have applied: the newest promise, the largest
 * ceiling and the merged tail of the three. What it promised or accepted together with one of them it holds again.
 */
export function joinTails(before: GroupState, peers: readonly ReplicaLogState[]): Change {
  assert(
    peers.every(({ appliedSeq }) => appliedSeq <= before.appliedSeq),
    "what the peers have applied was learnt before",
  );
  const states = [describeState(before, before.entries), ...peers];
  const { promisedEpoch, owner } = states.reduce((left, right) => (right.promisedEpoch > left.promisedEpoch ? right : left));
  const behind = (entry: LogEntry): boolean => entry.seq > before.appliedSeq;
  const { entries, timestampCeilingUs } = mergeTails(states.map((state) => ({ ...state, entries: state.entries.filter(behind) })));
  const state = withEntries({ ...before, promisedEpoch, owner, timestampCeilingUs }, entries);
  assert(lastEpoch(state) <= promisedEpoch, "no entry is of an epoch after the promised one (I2)");
  assert(
    promisedEpoch >= before.promisedEpoch && timestampCeilingUs >= before.timestampCeilingUs,
    "I10: nothing that is known is forgotten",
  );
  assert(entries.length === 0 || entries[0]!.seq === nextSeq(before.appliedSeq), "I3: a tail follows what is applied");
  const written = entries.filter((entry) => entryAt(before, entry.seq) !== entry);
  const dropped = before.entries.map(({ seq }) => seq).filter((seq) => seq > lastSeq(state));
  return { state, written, dropped, applied: [] };
}

/** On a ring of one whatever is held is decided. */
export function settleAlone(before: GroupState): Change {
  const change = applyTo(before, lastSeq(before));
  assert(change.state.entries.length === 0, "I8: what the only replica holds is decided");
  return change;
}

export function entryAt(state: GroupState, seq: Seq): LogEntry | undefined {
  if (seq <= state.appliedSeq || seq > lastSeq(state)) return undefined;
  const entry = state.entries[Number(seq - state.appliedSeq) - 1];
  assert(entry !== undefined && entry.seq === seq, "a tail has no gaps (I3)");
  return entry;
}

/** A decided entry of a newer epoch than the promised one: this replica missed that raise and promises late, as in I6. */
function promiseLate(state: GroupState, peer: ReplicaLogState, decided: readonly LogEntry[]): GroupState {
  if (decided.every(({ epoch }) => epoch <= state.promisedEpoch)) return state;
  assert(peer.promisedEpoch > state.promisedEpoch, "a peer holds no entry of an epoch it did not promise (I2)");
  return { ...state, promisedEpoch: peer.promisedEpoch, owner: peer.owner };
}

function applyTo(state: GroupState, seq: Seq): Change {
  const count = Number(seq - state.appliedSeq);
  if (count <= 0) return { state, written: [], dropped: [], applied: [] };
  const applied = state.entries.slice(0, count);
  const entries = state.entries.slice(count);
  assert(applied.length === count, "only entries that are held are applied (I8)");
  assert(applied.at(-1)!.seq === seq, "I3: a tail has no gaps");
  const appliedEpoch = applied.at(-1)!.epoch;
  return { state: { ...state, appliedSeq: seq, appliedEpoch, entries, tailBytes: bytesOf(entries) }, written: [], dropped: [], applied };
}

function connects(state: GroupState, firstSeq: Seq, previousEpoch: Epoch): boolean {
  if (firstSeq <= state.appliedSeq + 1n) return true;
  return entryAt(state, seqOf(firstSeq - 1n))?.epoch === previousEpoch;
}

/** Entries up to `decidedSeq` are known to be decided; what is applied already is passed over. */
function placeAll(before: GroupState, entries: readonly LogEntry[], decidedSeq: Seq): Change {
  let state = before;
  const written: LogEntry[] = [];
  const dropped: Seq[] = [];
  for (const entry of entries) {
    if (entry.seq <= state.appliedSeq) continue;
    const placed = place(state, entry, entry.seq <= decidedSeq);
    state = placed.state;
    written.push(...placed.written);
    dropped.push(...placed.dropped);
  }
  assert(state.appliedSeq === before.appliedSeq && state.promisedEpoch === before.promisedEpoch, "placing entries decides nothing");
  return { state, written, dropped: dropped.filter((seq) => seq > lastSeq(state)), applied: [] };
}

/**
 * Puts one entry in its place. An entry of an older epoch with the same bytes is the same decision under a newer promise: what
 * follows it stays. With other bytes it was never decided, so nothing built on it was: what follows it is dropped (I5).
 */
function place(state: GroupState, entry: LogEntry, decided: boolean): Change {
  const held = entryAt(state, entry.seq);
  if (held === undefined) {
    assert(entry.seq === lastSeq(state) + 1n, "entries are placed without gaps (I3)");
    return { state: withEntries(state, [...state.entries, entry]), written: [entry], dropped: [], applied: [] };
  }
  const same = compareBytes(held.bytes, entry.bytes) === 0;
  if (held.epoch >= entry.epoch && (same || !decided)) {
    if (!same) throw otherContent(entry);
    return { state, written: [held], dropped: [], applied: [] };
  }
  const index = Number(entry.seq - state.appliedSeq) - 1;
  assert(state.entries[index] === held, "an entry is replaced in its place (I5)");
  const before = state.entries.slice(0, index);
  const after = state.entries.slice(index + 1);
  if (same) return { state: withEntries(state, [...before, entry, ...after]), written: [entry], dropped: [], applied: [] };
  return { state: withEntries(state, [...before, entry]), written: [entry], dropped: after.map(({ seq }) => seq), applied: [] };
}

function withEntries(state: GroupState, entries: readonly LogEntry[]): GroupState {
  return { ...state, entries, tailBytes: bytesOf(entries) };
}

function raiseCeiling(state: GroupState, ceilingUs: TimestampUs): GroupState {
  return ceilingUs > state.timestampCeilingUs ? { ...state, timestampCeilingUs: ceilingUs } : state;
}

function bytesOf(entries: readonly LogEntry[]): number {
  let bytes = 0;
  for (const entry of entries) bytes += entry.bytes.length + entry.rows.length;
  return bytes;
}

function refuseOverload(before: GroupState, after: GroupState): void {
  const grew = after.entries.length > before.entries.length || after.tailBytes > before.tailBytes;
  if (!grew || (after.entries.length <= TAIL_ENTRIES_MAX && after.tailBytes <= TAIL_BYTES_MAX)) return;
  const metadata = { limit: "TAIL_ENTRIES_MAX", entries: String(after.entries.length), bytes: String(after.tailBytes) };
  throw new ConcordError("OVERLOADED", "the group's log is full until its owner says what is decided", { metadata });
}

function otherContent(entry: LogEntry): ConcordError {
  const metadata = { seq: String(entry.seq), epoch: String(entry.epoch) };
  return new ConcordError("IDEMPOTENCY_MISMATCH", `entry ${entry.seq} is held with other content`, { metadata });
}

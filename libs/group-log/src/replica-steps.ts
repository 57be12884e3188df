import type { Checkpoints, GroupOwner, KeyValueOperation, LogEntry, LogPosition, StoreEffects, StoreStep } from "@concord/ports";
import { assert, ConcordError, nextSeq, SEQ_NONE, seqOf, type Checksum, type Seq } from "@concord/runtime";
import { checkAdvance, checkAppend, checkOwned, checkRead, encodedName } from "./check-requests.ts";
import {
  acceptEntries,
  canPromise,
  describeState,
  EMPTY_GROUP,
  isPromised,
  joinTails,
  learnFrom,
  markDecided,
  settleAlone,
  type Change,
  type GroupState,
} from "./group-state.ts";
import { KeptEntries } from "./kept-entries.ts";
import { DROPS_PER_STEP_MAX, GROUPS_MAX, KEPT_BYTES_MAX, LOG_READ_BYTES_MAX } from "./limits.ts";
import { decodeEntry, encodeEntry, encodeHeader, entryKey, headerKey } from "./log-format.ts";
import type { LogAdvanceRequest, LogAppendReply, LogAppendRequest, LogRaiseReply, LogReadRequest, ReplicaLogState } from "./replica.ts";
import type { CheckRows } from "./check-requests.ts";

/** The writes that bring an entry's rows into the node's store. */
export type RowsOf = (group: string, entry: LogEntry) => readonly KeyValueOperation[];
/**
 * One replica's group logs as steps over its store (TXR1). The state lives in memory, loaded by `openReplicaLog`, and changes only
 * inside `run`, which the step runner calls in the order in which the effects reach the disk; if a write fails the node stops and
 * loads again. Malformed requests are refused with MALFORMED_REQUEST or LIMIT_EXCEEDED when the step is made.
 */
export interface ReplicaLog {
  /** What the last step that ran has applied; perhaps not on disk yet. */
  appliedSeq(group: string): Seq;
  /** The same of every group that has applied anything. */
  applied(): readonly LogPosition[];
  /** Up to where the owners' nodes have heard that every replica applied each group, this one too. No crash takes it back, another store may. */
  appliedByAll(): readonly LogPosition[];
  raise(request: GroupOwner): StoreStep<LogRaiseReply>;
  append(request: LogAppendRequest): StoreStep<LogAppendReply>;
  state(group: string): StoreStep<ReplicaLogState>;
  /** The newest state that is on disk, without entries: that of the last step that was answered. */
  stateOnDisk(group: string): ReplicaLogState;
  read(request: LogReadRequest): StoreStep<ReplicaLogState>;
  advance(request: LogAdvanceRequest): StoreStep<ReplicaLogState>;
  /** Applies what follows from a peer's state, read from this replica's applied watermark + 1 on; answers the state then. */
  learn(group: string, peer: ReplicaLogState): StoreStep<ReplicaLogState>;
  /** After `learn` of all that these peers have applied: holds what they hold behind it, and promises what they promise. */
  rejoin(group: string, peers: readonly ReplicaLogState[]): StoreStep<ReplicaLogState>;
  /** Of a ring of one: applies everything held. */
  settleAlone(group: string): StoreStep<ReplicaLogState>;
}

export interface LoadedGroup {
  readonly state: GroupState;
  readonly kept: KeptEntries;
}

export interface ReplicaLogOptions {
  readonly checksum: Checksum;
  readonly rowsOf: RowsOf;
  readonly checkRows: CheckRows;
  readonly checkpoints: Checkpoints;
}

export class ReplicaLogSteps implements ReplicaLog {
  readonly #groups = new Map<string, GroupState>();
  /** The newest states that are on disk. */
  readonly #onDisk = new Map<string, GroupState>();
  readonly #kept = new Map<string, KeptEntries>();
  readonly #options: ReplicaLogOptions;
  /** Rows up to here are on disk for good: their entries are not needed to derive them again (I9). */
  readonly #checkpointed = new Map<string, Seq>();
  readonly #appliedByAll = new Map<string, Seq>();
  /** Groups that applied something since the last checkpoint began. */
  readonly #appliedSince = new Set<string>();

  constructor(groups: ReadonlyMap<string, LoadedGroup>, options: ReplicaLogOptions) {
    for (const [group, { state, kept }] of groups) {
      assert(kept.lastSeq === state.appliedSeq, "I9: every applied entry is kept until it is dropped");
      this.#groups.set(group, state);
      this.#onDisk.set(group, state);
      this.#kept.set(group, kept);
      this.#appliedSince.add(group);
    }
    this.#options = options;
    options.checkpoints.onCheckpoint(() => this.#checkpointBegun());
  }

  appliedSeq(group: string): Seq {
    return this.#stateOf(group).appliedSeq;
  }

  applied(): readonly LogPosition[] {
    const positions = [...this.#groups].map(([group, { appliedSeq }]) => ({ group, seq: appliedSeq }));
    return positions.filter(({ seq }) => seq > SEQ_NONE);
  }

  appliedByAll(): readonly LogPosition[] {
    return Array.from(this.#appliedByAll, ([group, heard]) => {
      const own = this.appliedSeq(group);
      return { group, seq: heard < own ? heard : own };
    });
  }

  raise(request: GroupOwner): StoreStep<LogRaiseReply> {
    checkOwned(request);
    return this.#step<LogRaiseReply>(() => {
      const before = this.#stateOf(request.group);
      if (!canPromise(before, request.epoch, request.owner)) {
        return { persist: [], reply: { promised: false, state: describeState(before, []) } };
      }
      this.#refuseGroups(request.group);
      assert(request.epoch >= before.promisedEpoch, "a promise is never taken back (I1)");
      const state = { ...before, promisedEpoch: request.epoch, owner: request.owner };
      this.#groups.set(request.group, state);
      // promised and synced before answered (I1); repeated raises too, so that they wait for the first
      return {
        persist: [this.#header(request.group, state)],
        onSynced: () => this.#synced(request.group, state),
        reply: { promised: true, state: describeState(state, state.entries) },
      };
    });
  }

  append(request: LogAppendRequest): StoreStep<LogAppendReply> {
    checkAppend(request, this.#options.checkRows);
    return this.#step<LogAppendReply>(() => {
      const before = this.#stateOf(request.group);
      const acceptance = acceptEntries(before, request);
      if (acceptance.kind !== "accepted") return { persist: [], reply: { result: acceptance.kind, state: describeState(before, []) } };
      this.#heard(request);
      const effects = this.#changed(request.group, acceptance, request.appliedByAllSeq);
      assert(effects.reply.appliedSeq >= before.appliedSeq, "I8: what is applied is never taken back");
      return { ...effects, reply: { result: "accepted", appliedSeq: effects.reply.appliedSeq } };
    });
  }

  state(group: string): StoreStep<ReplicaLogState> {
    encodedName(group);
    return this.#step(() => ({ persist: [], reply: describeState(this.#stateOf(group), []) }));
  }

  stateOnDisk(group: string): ReplicaLogState {
    encodedName(group);
    return describeState(this.#onDisk.get(group) ?? EMPTY_GROUP, []);
  }

  /** Kept entries come from the store, those of the tail from memory. What is applied or dropped before the step runs ends the page. */
  read(request: LogReadRequest): StoreStep<ReplicaLogState> {
    checkRead(request);
    const { group, limit } = request;
    const stored = this.#keptSeqs(request);
    return {
      load: stored.map((seq) => entryKey(group, seq)),
      run: (loaded) => {
        assert(loaded.length === stored.length, "a step sees every entry that it loads");
        const state = this.#stateOf(group);
        const found: LogEntry[] = [];
        for (const [at, value] of loaded.entries()) {
          if (value !== undefined) found.push(decodeEntry(stored[at]!, value, this.#options.checksum));
        }
        const next = stored.length === 0 ? request.fromSeq : nextSeq(stored.at(-1)!);
        found.push(...state.entries.filter(({ seq }) => seq >= next && (found.length > 0 || seq >= request.fromSeq)));
        return { persist: [], reply: describeState(state, pageOf(found, limit)) };
      },
    };
  }

  advance(request: LogAdvanceRequest): StoreStep<ReplicaLogState> {
    checkAdvance(request);
    return this.#step(() => {
      const { group, epoch, owner, decided, appliedByAllSeq } = request;
      const before = this.#stateOf(group);
      if (!isPromised(before, epoch, owner)) throw fenced(before);
      this.#heard(request);
      return this.#applied(group, before, markDecided(before, decided), appliedByAllSeq);
    });
  }

  learn(group: string, peer: ReplicaLogState): StoreStep<ReplicaLogState> {
    encodedName(group);
    return this.#step(() => {
      const before = this.#stateOf(group);
      this.#refuseGroups(group);
      return this.#applied(group, before, learnFrom(before, peer), before.droppedSeq);
    });
  }

  rejoin(group: string, peers: readonly ReplicaLogState[]): StoreStep<ReplicaLogState> {
    encodedName(group);
    return this.#step(() => {
      const before = this.#stateOf(group);
      this.#refuseGroups(group);
      return this.#changed(group, joinTails(before, peers), before.droppedSeq);
    });
  }

  settleAlone(group: string): StoreStep<ReplicaLogState> {
    encodedName(group);
    return this.#step(() => {
      const before = this.#stateOf(group);
      return this.#applied(group, before, settleAlone(before), before.droppedSeq);
    });
  }

  #step<Reply>(run: () => StoreEffects<Reply>): StoreStep<Reply> {
    return { load: [], run };
  }

  #heard({ group, appliedByAllSeq }: Pick<LogAppendRequest, "group" | "appliedByAllSeq">): void {
    if (appliedByAllSeq > (this.#appliedByAll.get(group) ?? SEQ_NONE)) this.#appliedByAll.set(group, appliedByAllSeq);
  }

  #stateOf(group: string): GroupState {
    return this.#groups.get(group) ?? EMPTY_GROUP;
  }

  #keptOf(group: string): KeptEntries {
    let kept = this.#kept.get(group);
    if (kept === undefined) {
      kept = new KeptEntries(this.#stateOf(group).droppedSeq);
      this.#kept.set(group, kept);
    }
    return kept;
  }

  #synced(group: string, state: GroupState): void {
    const before = this.#onDisk.get(group) ?? EMPTY_GROUP;
    assert(state.promisedEpoch >= before.promisedEpoch, "I1: a promise that was answered is never taken back");
    assert(state.appliedSeq >= before.appliedSeq, "I8: watermarks only grow");
    this.#onDisk.set(group, state);
  }

  #refuseGroups(group: string): void {
    if (this.#groups.has(group) || this.#groups.size < GROUPS_MAX) return;
    throw new ConcordError("LIMIT_EXCEEDED", `at most ${GROUPS_MAX} groups`, {
      metadata: { limit: "GROUPS_MAX", value: String(GROUPS_MAX) },
    });
  }

  /** Nothing is written for what changes nothing. */
  #applied(group: string, before: GroupState, change: Change | undefined, appliedByAllSeq: Seq): StoreEffects<ReplicaLogState> {
    if (change === undefined || change.applied.length === 0) return { persist: [], reply: describeState(before, []) };
    return this.#changed(group, change, appliedByAllSeq);
  }

  /** Mark, entries and header are one batch with the rows that follow: none of them is seen before the mark is on disk (I8). */
  #changed(group: string, change: Change, appliedByAllSeq: Seq): StoreEffects<ReplicaLogState> {
    const { checksum, rowsOf } = this.#options;
    // What can throw comes before what is remembered: a step that fails leaves no trace.
    const derived = change.applied.flatMap((entry) => rowsOf(group, entry));
    const kept = this.#keptOf(group);
    const dropped = change.dropped.map((seq): KeyValueOperation => ({ kind: "delete", key: entryKey(group, seq) }));
    const written = change.written.map((entry): KeyValueOperation => {
      return { kind: "put", key: entryKey(group, entry.seq), value: encodeEntry(entry, checksum) };
    });
    for (const { bytes, rows } of change.applied) kept.push(bytes.length + rows.length);
    if (change.applied.length > 0) this.#appliedSince.add(group);
    const forgotten = this.#forget(group, kept, appliedByAllSeq);
    const state = { ...change.state, droppedSeq: kept.droppedSeq };
    assert(state.droppedSeq <= state.appliedSeq, "only applied entries are dropped (I9)");
    assert(kept.lastSeq === state.appliedSeq, "I9: every applied entry is kept until it is dropped");
    const before = this.#stateOf(group);
    assert(state.promisedEpoch >= before.promisedEpoch, "I1: a promise is never taken back");
    assert(state.appliedSeq >= before.appliedSeq && state.droppedSeq >= before.droppedSeq, "I8, I9: watermarks only grow");
    this.#groups.set(group, state);
    return {
      persist: [...dropped, ...written, ...forgotten, this.#header(group, state)],
      derived,
      onSynced: () => this.#synced(group, state),
      reply: describeState(state, []),
    };
  }

  /** Drops entries whose rows a checkpoint holds, when every replica has applied them or too many bytes are kept (I9). */
  #forget(group: string, kept: KeptEntries, appliedByAllSeq: Seq): KeyValueOperation[] {
    const checkpointed = this.#checkpointed.get(group) ?? kept.droppedSeq;
    const operations: KeyValueOperation[] = [];
    while (kept.count > 0 && kept.droppedSeq < checkpointed && operations.length < DROPS_PER_STEP_MAX) {
      if (kept.droppedSeq >= appliedByAllSeq && kept.bytes <= KEPT_BYTES_MAX) break;
      operations.push({ kind: "delete", key: entryKey(group, kept.dropOldest()) });
    }
    assert(operations.length === 0 || kept.droppedSeq <= checkpointed, "I9: a checkpoint holds the rows of what is dropped");
    return operations;
  }

  #checkpointBegun(): () => void {
    const applied = [...this.#appliedSince].map((group): [string, Seq] => [group, this.#stateOf(group).appliedSeq]);
    this.#appliedSince.clear();
    return () => {
      for (const [group, seq] of applied) {
        assert(seq >= (this.#checkpointed.get(group) ?? SEQ_NONE), "I9: a later checkpoint holds no less");
        this.#checkpointed.set(group, seq);
      }
    };
  }

  /** Seqs of kept entries for one page. */
  #keptSeqs({ group, fromSeq, limit }: LogReadRequest): Seq[] {
    const { appliedSeq, droppedSeq } = this.#stateOf(group);
    const kept = this.#kept.get(group);
    const seqs: Seq[] = [];
    if (kept === undefined || fromSeq <= droppedSeq) return seqs;
    let bytes = 0;
    for (let seq = fromSeq; seq <= appliedSeq && seqs.length < limit; seq = nextSeq(seq)) {
      bytes += kept.sizeAt(Number(seq - droppedSeq) - 1);
      if (seqs.length > 0 && bytes > LOG_READ_BYTES_MAX) break;
      seqs.push(seq);
    }
    return seqs;
  }

  #header(group: string, state: GroupState): KeyValueOperation {
    return { kind: "put", key: headerKey(group), value: encodeHeader(state, this.#options.checksum) };
  }
}

function pageOf(entries: readonly LogEntry[], limit: number): LogEntry[] {
  const page: LogEntry[] = [];
  let bytes = 0;
  for (const entry of entries) {
    bytes += entry.bytes.length + entry.rows.length;
    const last = page.at(-1);
    if (page.length === limit || (last !== undefined && (bytes > LOG_READ_BYTES_MAX || entry.seq !== seqOf(last.seq + 1n)))) break;
    page.push(entry);
  }
  assert(
    page.length <= limit && (page.length > 0 || entries.length === 0),
    "a page has an entry when there is one, and no more than asked for",
  );
  return page;
}

function fenced(state: GroupState): ConcordError {
  const metadata = { promisedEpoch: String(state.promisedEpoch), owner: state.owner };
  return new ConcordError("EPOCH_FENCED", `epoch ${state.promisedEpoch} of ${state.owner} is promised`, { metadata });
}

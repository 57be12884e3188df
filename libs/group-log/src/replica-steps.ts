import type { GroupOwner, KeyValueOperation, LogEntry, StoreEffects, StoreStep, TrimRequest } from "@concord/ports";
import { assert, ConcordError, type Checksum } from "@concord/runtime";
import { checkAppend, checkOwned, checkRead, checkTrim, encodedName } from "./check-requests.ts";
import { acceptEntries, canPromise, describeState, EMPTY_GROUP, isPromised, trimTo, type Change, type GroupState } from "./group-state.ts";
import { GROUPS_MAX, LOG_READ_BYTES_MAX, LOG_READ_ENTRIES_MAX } from "./limits.ts";
import { encodeEntry, encodeHeader, entryKey, headerKey } from "./log-format.ts";
import type { LogAppendReply, LogAppendRequest, LogRaiseReply, LogReadRequest, ReplicaLogState } from "./replica.ts";

/**
 * One replica's group logs as steps over its store (TXR1). The state lives in memory, loaded by `openReplicaLog`, and changes only
 * inside `run`, which the step runner calls in the order in which the effects reach the disk; if a write fails the node stops and
 * loads again. Malformed requests are refused with MALFORMED_REQUEST or LIMIT_EXCEEDED when the step is made.
 */
export interface ReplicaLog {
  raise(request: GroupOwner): StoreStep<LogRaiseReply>;
  append(request: LogAppendRequest): StoreStep<LogAppendReply>;
  state(group: string): StoreStep<ReplicaLogState>;
  read(request: LogReadRequest): StoreStep<ReplicaLogState>;
  trim(request: TrimRequest): StoreStep<void>;
}

export class ReplicaLogSteps implements ReplicaLog {
  readonly #groups: Map<string, GroupState>;
  readonly #checksum: Checksum;

  constructor(groups: ReadonlyMap<string, GroupState>, checksum: Checksum) {
    this.#groups = new Map(groups);
    this.#checksum = checksum;
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
      return { persist: [this.#header(request.group, state)], reply: { promised: true, state: describeState(state, state.entries) } };
    });
  }

  append(request: LogAppendRequest): StoreStep<LogAppendReply> {
    checkAppend(request);
    return this.#step<LogAppendReply>(() => {
      const before = this.#stateOf(request.group);
      const acceptance = acceptEntries(before, request);
      if (acceptance.kind !== "accepted") return { persist: [], reply: { result: acceptance.kind, state: describeState(before, []) } };
      this.#groups.set(request.group, acceptance.state);
      // synced before answered (I1)
      const persist = this.#changed(request.group, acceptance);
      return { persist, reply: { result: "accepted", state: describeState(acceptance.state, []) } };
    });
  }

  state(group: string): StoreStep<ReplicaLogState> {
    encodedName(group);
    return this.#step(() => ({ persist: [], reply: describeState(this.#stateOf(group), []) }));
  }

  read(request: LogReadRequest): StoreStep<ReplicaLogState> {
    checkRead(request);
    return this.#step(() => {
      const state = this.#stateOf(request.group);
      const found = state.entries.filter((entry) => entry.seq >= request.fromSeq);
      return { persist: [], reply: describeState(state, pageOf(found, request.limit)) };
    });
  }

  trim(request: TrimRequest): StoreStep<void> {
    checkTrim(request);
    return this.#step(() => {
      const before = this.#stateOf(request.group);
      if (!isPromised(before, request.epoch, request.owner)) throw fenced(before);
      const change = trimTo(before, request.appliedSeq, request.appliedEpoch);
      if (change.state === before) return { persist: [], reply: undefined };
      assert(change.state.appliedSeq > before.appliedSeq && change.dropped.length > 0, "a trim moves the watermark on");
      this.#groups.set(request.group, change.state);
      return { persist: this.#changed(request.group, change), reply: undefined };
    });
  }

  #step<Reply>(run: () => StoreEffects<Reply>): StoreStep<Reply> {
    return { load: [], run };
  }

  #stateOf(group: string): GroupState {
    return this.#groups.get(group) ?? EMPTY_GROUP;
  }

  #refuseGroups(group: string): void {
    if (this.#groups.has(group) || this.#groups.size < GROUPS_MAX) return;
    throw new ConcordError("LIMIT_EXCEEDED", `at most ${GROUPS_MAX} groups`, {
      metadata: { limit: "GROUPS_MAX", value: String(GROUPS_MAX) },
    });
  }

  #changed(group: string, change: Change): KeyValueOperation[] {
    assert(change.state === this.#groups.get(group), "what is persisted is what is in memory (I1)");
    const dropped = change.dropped.map((seq): KeyValueOperation => ({ kind: "delete", key: entryKey(group, seq) }));
    const written = change.written.map((entry): KeyValueOperation => {
      return { kind: "put", key: entryKey(group, entry.seq), value: encodeEntry(entry, this.#checksum) };
    });
    return [...dropped, ...written, this.#header(group, change.state)];
  }

  #header(group: string, state: GroupState): KeyValueOperation {
    return { kind: "put", key: headerKey(group), value: encodeHeader(state, this.#checksum) };
  }
}

function pageOf(entries: readonly LogEntry[], limit: number): LogEntry[] {
  const page: LogEntry[] = [];
  let bytes = 0;
  for (const entry of entries.slice(0, Math.min(limit, LOG_READ_ENTRIES_MAX))) {
    bytes += entry.bytes.length;
    if (page.length > 0 && bytes > LOG_READ_BYTES_MAX) break;
    page.push(entry);
  }
  return page;
}

function fenced(state: GroupState): ConcordError {
  const metadata = { promisedEpoch: String(state.promisedEpoch), owner: state.owner };
  return new ConcordError("EPOCH_FENCED", `epoch ${state.promisedEpoch} of ${state.owner} is promised`, { metadata });
}

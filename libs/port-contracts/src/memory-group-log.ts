import { ConcordError, EPOCH_NONE, SEQ_NONE, TIMESTAMP_ZERO, type Epoch, type Seq, type TimestampUs } from "@concord/runtime";
import { compareBytes } from "@concord/codec";
import type { AdvanceRequest, AppendOutcome, AppendRequest, GroupLog, GroupOwner, LogEntry, RaiseOutcome } from "@concord/ports";

const CONTENT_BYTES_MAX = 1024 * 1024;

interface Group {
  promisedEpoch: Epoch;
  owner: string;
  appliedSeq: Seq;
  appliedEpoch: Epoch;
  timestampCeilingUs: TimestampUs;
  /** Seqs appliedSeq + 1, appliedSeq + 2, ... */
  entries: LogEntry[];
}

/** The reference of the GroupLog port, with owners that apply rows: one copy in memory that never fails. */
export class MemoryGroupLog implements GroupLog {
  exchangesMax = 1;
  readonly #groups = new Map<string, Group>();

  async status(group: string): Promise<{ readonly promisedEpoch: Epoch; readonly owner: string }> {
    checkNames(group, "any");
    const { promisedEpoch, owner } = this.#group(group);
    return { promisedEpoch, owner };
  }

  async raise({ group, epoch, owner }: GroupOwner): Promise<RaiseOutcome> {
    checkOwned({ group, epoch, owner });
    const state = this.#group(group);
    const isOwn = epoch === state.promisedEpoch && owner === state.owner;
    if (epoch <= state.promisedEpoch && !isOwn) return { kind: "refused", promisedEpoch: state.promisedEpoch, owner: state.owner };
    state.promisedEpoch = epoch;
    state.owner = owner;
    const { appliedSeq, appliedEpoch, timestampCeilingUs } = state;
    return { kind: "raised", tail: { appliesRows: false, appliedSeq, appliedEpoch, entries: [...state.entries], timestampCeilingUs } };
  }

  async append(request: AppendRequest): Promise<AppendOutcome> {
    checkAppend(request);
    const state = this.#group(request.group);
    if (request.epoch !== state.promisedEpoch || request.owner !== state.owner)
      return { kind: "fenced", promisedEpoch: state.promisedEpoch };
    if (request.seq <= state.appliedSeq) return { kind: "logged" };
    const at = Number(request.seq - state.appliedSeq) - 1;
    const before = at === 0 ? request.previousEpoch : state.entries[at - 1]?.epoch;
    if (before !== request.previousEpoch)
      throw new ConcordError("SEQUENCE_GAP", "the entry before is not in the log", { applied: "unknown" });
    const held = state.entries[at];
    const same = held !== undefined && compareBytes(held.bytes, request.bytes) === 0;
    if (held?.epoch === request.epoch && !same)
      throw new ConcordError("IDEMPOTENCY_MISMATCH", `entry ${request.seq} is held with other content`);
    if (!same) state.entries.length = at;
    state.entries[at] = { seq: request.seq, epoch: request.epoch, bytes: request.bytes.slice(), rows: request.rows.slice() };
    this.#mark(state, request.decided.seq, request.decided.epoch);
    if (request.timestampCeilingUs > state.timestampCeilingUs) state.timestampCeilingUs = request.timestampCeilingUs;
    return { kind: "logged" };
  }

  async verify({ group, epoch, owner }: GroupOwner): Promise<"current" | "fenced" | "unknown"> {
    checkOwned({ group, epoch, owner });
    const state = this.#group(group);
    return epoch === state.promisedEpoch && owner === state.owner ? "current" : "fenced";
  }

  async advance({ group, epoch, owner, decided }: AdvanceRequest): Promise<"advanced" | "unknown"> {
    checkOwned({ group, epoch, owner });
    const state = this.#group(group);
    if (epoch !== state.promisedEpoch || owner !== state.owner) return "unknown";
    this.#mark(state, decided.seq, decided.epoch);
    return state.appliedSeq >= decided.seq ? "advanced" : "unknown";
  }

  #mark(state: Group, seq: Seq, epoch: Epoch): void {
    const marked = state.entries.findLast((entry) => entry.seq <= seq && entry.epoch >= epoch);
    if (marked === undefined) return;
    state.entries = state.entries.filter((entry) => entry.seq > marked.seq);
    state.appliedSeq = marked.seq;
    state.appliedEpoch = marked.epoch;
  }

  #group(name: string): Group {
    let group = this.#groups.get(name);
    if (group === undefined) {
      group = {
        promisedEpoch: EPOCH_NONE,
        owner: "",
        appliedSeq: SEQ_NONE,
        appliedEpoch: EPOCH_NONE,
        timestampCeilingUs: TIMESTAMP_ZERO,
        entries: [],
      };
      this.#groups.set(name, group);
    }
    return group;
  }
}

function checkNames(group: string, owner: string): void {
  if (group === "" || owner === "") throw malformed("group and owner are named");
}

function checkOwned({ group, epoch, owner }: GroupOwner): void {
  checkNames(group, owner);
  if (epoch <= 0n) throw malformed("an epoch is above 0");
}

function checkAppend(request: AppendRequest): void {
  checkOwned(request);
  if (request.seq <= 0n || (request.seq === 1n) !== (request.previousEpoch === 0n)) throw malformed("seqs start at 1, on top of epoch 0");
  if (request.bytes.length === 0) throw malformed("an entry has content");
  if (request.bytes.length + request.rows.length > CONTENT_BYTES_MAX)
    throw new ConcordError("LIMIT_EXCEEDED", `an entry has at most ${CONTENT_BYTES_MAX} bytes`);
}

function malformed(what: string): ConcordError {
  return new ConcordError("MALFORMED_REQUEST", what);
}

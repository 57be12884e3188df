import type { KeyValueOperation } from "@concord/ports";
import { assert, ConcordError, EPOCH_NONE, SEQ_NONE, type Checksum, type Seq } from "@concord/runtime";
import { encodeEntry, encodeHeader, entryKey, headerKey } from "./log-format.ts";
import { mergeTails } from "./merge-tails.ts";
import type { ReplicaLogState } from "./replica.ts";

/** One state of a group, with all its entries. */
export interface RestoredFrom extends ReplicaLogState {
  /** Rows of entries that it has dropped may be missing: its watermark proves nothing that its entries do not. */
  readonly lacksRows?: boolean;
}

/**
 * What a replica that lost its store, or lags too far behind, keeps of a group, out of the states (with all entries after `copiedSeq`) of both
 * peers (TXR4): the newest promise, the largest applied watermark, per seq the entry with the highest epoch. Whatever it had logged
 * together with one of them is there again. `copiedSeq`: the rows were copied after a peer had applied up to here; those of later entries
 * follow from the entries. `own`: what its store still holds, with all entries; it counts as one more state, and the writes replace it.
 * REPLICAS_UNAVAILABLE when the peers dropped some of these meanwhile, or entries that a state without their rows had applied are in none: copy again.
 */
export function restoreGroup(
  group: string,
  copiedSeq: Seq,
  peers: readonly RestoredFrom[],
  checksum: Checksum,
  own?: RestoredFrom,
): KeyValueOperation[] {
  assert(peers.length > 0, "a group is restored from the peers' states");
  // A checkpoint of the own store holds the rows of what it has dropped (I9), unless it lost some.
  const coveredSeq = own?.lacksRows !== true && own !== undefined && own.droppedSeq > copiedSeq ? own.droppedSeq : copiedSeq;
  const held = own === undefined ? peers : [...peers, own];
  const states = held.map((state) =>
    isUnproven(state, coveredSeq) ? { ...state, appliedSeq: SEQ_NONE, appliedEpoch: EPOCH_NONE } : state,
  );
  const { promisedEpoch, owner } = states.reduce((left, right) => (right.promisedEpoch > left.promisedEpoch ? right : left));
  const tails = states.map((state) => ({ ...state, entries: state.entries.filter(({ seq }) => seq > state.appliedSeq) }));
  const { entries: tail, appliedSeq, appliedEpoch, timestampCeilingUs } = mergeTails(tails);
  const ahead = states.find((state) => state.appliedSeq === appliedSeq)!;
  const kept = ahead.entries.filter(({ seq }) => seq > coveredSeq && seq <= appliedSeq);
  if (BigInt(kept.length) !== (appliedSeq > coveredSeq ? appliedSeq - coveredSeq : 0n))
    throw new ConcordError("REPLICAS_UNAVAILABLE", `entries of group ${group} were dropped while its rows were copied`);
  const lastSeq = appliedSeq + BigInt(tail.length);
  if (held.some((state) => isUnproven(state, coveredSeq) && state.droppedSeq > lastSeq))
    throw new ConcordError(
      "REPLICAS_UNAVAILABLE",
      `entries of group ${group} behind ${lastSeq} were applied where rows are lost, and are nowhere now`,
    );
  const droppedSeq = appliedSeq < coveredSeq ? appliedSeq : coveredSeq;
  const header = { promisedEpoch, owner, appliedSeq, appliedEpoch, timestampCeilingUs, droppedSeq };
  const entries = [...kept, ...tail];
  assert(droppedSeq <= appliedSeq, "I9: only applied entries are dropped");
  assert(
    entries.every(({ seq }, at) => seq === droppedSeq + BigInt(at + 1)),
    "I3, I9: what is restored has no gap",
  );
  const written = new Set(entries.map(({ seq }) => seq));
  const replaced = (own?.entries ?? []).filter(({ seq }) => !written.has(seq));
  return [
    ...replaced.map(({ seq }): KeyValueOperation => ({ kind: "delete", key: entryKey(group, seq) })),
    { kind: "put", key: headerKey(group), value: encodeHeader(header, checksum) },
    ...entries.map((entry): KeyValueOperation => ({
      kind: "put",
      key: entryKey(group, entry.seq),
      value: encodeEntry(entry, checksum),
    })),
  ];
}

function isUnproven({ lacksRows, droppedSeq }: RestoredFrom, coveredSeq: Seq): boolean {
  return lacksRows === true && droppedSeq > coveredSeq;
}

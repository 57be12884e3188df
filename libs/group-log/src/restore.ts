import type { KeyValueOperation, LogEntry } from "@concord/ports";
import { assert, ConcordError, type Checksum, type Seq } from "@concord/runtime";
import { encodeEntry, encodeHeader, entryKey, headerKey } from "./log-format.ts";
import { mergeTails } from "./merge-tails.ts";
import type { ReplicaLogState } from "./replica.ts";

/**
 * What a replica that lost its store keeps of a group, out of the states (with all entries after `copiedSeq`) of both peers (TXR4): the
 * newest promise, the largest applied watermark, per seq the entry with the highest epoch. Whatever it had logged together with one of them
 * is there again. `copiedSeq`: the rows were copied after a peer had applied up to here; those of later entries follow from the entries.
 * REPLICAS_UNAVAILABLE when the peers dropped some of these meanwhile: copy again.
 */
export function restoreGroup(group: string, copiedSeq: Seq, states: readonly ReplicaLogState[], checksum: Checksum): KeyValueOperation[] {
  assert(states.length > 0, "a group is restored from the peers' states");
  const { promisedEpoch, owner } = states.reduce((left, right) => (right.promisedEpoch > left.promisedEpoch ? right : left));
  const tails = states.map((state) => ({ ...state, entries: state.entries.filter(({ seq }) => seq > state.appliedSeq) }));
  const { entries: tail, appliedSeq, appliedEpoch, timestampCeilingUs } = mergeTails(tails);
  const ahead = states.find((state) => state.appliedSeq === appliedSeq)!;
  const kept = ahead.entries.filter(({ seq }) => seq > copiedSeq && seq <= appliedSeq);
  if (BigInt(kept.length) !== (appliedSeq > copiedSeq ? appliedSeq - copiedSeq : 0n))
    throw new ConcordError("REPLICAS_UNAVAILABLE", `entries of group ${group} were dropped while its rows were copied`);
  const droppedSeq = appliedSeq < copiedSeq ? appliedSeq : copiedSeq;
  const header = { promisedEpoch, owner, appliedSeq, appliedEpoch, timestampCeilingUs, droppedSeq };
  const put = (entry: LogEntry): KeyValueOperation => ({
    kind: "put",
    key: entryKey(group, entry.seq),
    value: encodeEntry(entry, checksum),
  });
  return [{ kind: "put", key: headerKey(group), value: encodeHeader(header, checksum) }, ...kept.map(put), ...tail.map(put)];
}

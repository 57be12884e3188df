import type { KeyValueOperation } from "@concord/ports";
import { assert, type Checksum } from "@concord/runtime";
import { encodeEntry, encodeHeader, entryKey, headerKey } from "./log-format.ts";
import { mergeTails } from "./merge-tails.ts";
import type { ReplicaLogState } from "./replica.ts";

/**
 * What a replica that lost its store keeps of a group, out of the states (with all entries) of both peers (TXR4): the newest promise,
 * the largest applied watermark, per seq the entry with the highest epoch. Whatever it had logged together with one of them is there again.
 */
export function restoreGroup(group: string, states: readonly ReplicaLogState[], checksum: Checksum): KeyValueOperation[] {
  assert(states.length > 0, "a group is restored from the peers' states");
  const { promisedEpoch, owner } = states.reduce((left, right) => (right.promisedEpoch > left.promisedEpoch ? right : left));
  const { entries, ...mark } = mergeTails(states);
  const operations: KeyValueOperation[] = [
    { kind: "put", key: headerKey(group), value: encodeHeader({ promisedEpoch, owner, ...mark }, checksum) },
  ];
  for (const entry of entries) operations.push({ kind: "put", key: entryKey(group, entry.seq), value: encodeEntry(entry, checksum) });
  return operations;
}

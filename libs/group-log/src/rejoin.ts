import type { StepRunner } from "@concord/ports";
import { assert, ConcordError, nextSeq } from "@concord/runtime";
import { LEARN_TIMEOUT_MS, LOG_READ_ENTRIES_MAX } from "./limits.ts";
import type { ReplicaLog } from "./replica-steps.ts";
import type { LogReplica, ReplicaLogState } from "./replica.ts";

export interface RejoinOptions {
  readonly log: ReplicaLog;
  readonly runner: StepRunner;
  /** Both: what this replica forgot it had acknowledged together with either. */
  readonly peers: readonly LogReplica[];
}

/**
 * Catches a group up from both peers, for a replica whose store may have lost what it acknowledged (I10). It must not promise, accept or
 * vote before, and no earlier vote of it may count any more (`RingGroupLog.restarted`). `too-far`: a peer has dropped what is lacking
 * here, the store must be copied. REPLICAS_UNAVAILABLE and what calls reject with: try again.
 */
export async function rejoinGroup({ log, runner, peers }: RejoinOptions, group: string): Promise<"joined" | "too-far"> {
  assert(peers.length === 2, "a ring of three has two peers (TXR4)");
  let state = await runner.submit(log.state(group));
  for (;;) {
    const before = state.appliedSeq;
    const read = { group, fromSeq: nextSeq(before), limit: LOG_READ_ENTRIES_MAX, recovering: true };
    const told = await Promise.all(peers.map((peer) => peer.logRead(read, LEARN_TIMEOUT_MS)));
    for (const peer of told) state = await runner.submit(log.learn(group, peer));
    const { appliedSeq } = state;
    assert(appliedSeq >= before, "I8: learning never takes back what is applied");
    if (told.every((peer) => isWhole(peer, appliedSeq))) {
      await runner.submit(log.rejoin(group, told));
      return "joined";
    }
    if (appliedSeq > before) continue;
    if (told.some(({ droppedSeq }) => droppedSeq > appliedSeq)) return "too-far";
    throw new ConcordError("REPLICAS_UNAVAILABLE", `the log of group ${group} changed while it was read`);
  }
}

/** All that the peer holds above `appliedSeq`, where its applied entries end, too. */
function isWhole({ appliedSeq: peerApplied, lastSeq, entries }: ReplicaLogState, appliedSeq: bigint): boolean {
  if (peerApplied > appliedSeq) return false;
  if (lastSeq <= appliedSeq) return true;
  return entries.length > 0 && entries[0]!.seq <= appliedSeq + 1n && entries.at(-1)!.seq === lastSeq;
}

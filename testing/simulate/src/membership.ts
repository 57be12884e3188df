import { DETECTION_LIMITS, DetectorLoop, type Membership } from "@concord/failure-detection";
import type { NodeContext } from "@concord/simulation";

interface Member {
  readonly name: string;
  readonly address: string;
}

/** The detector that a worker thread runs in production, on the node's own clock and simulated datagrams. */
export function simulatedMembership(
  { env, threadClock, datagrams }: NodeContext,
  members: readonly Member[],
  nodeName: string,
): Membership {
  const self = members.findIndex(({ name }) => name === nodeName);
  let leaseEndMs = Number.NEGATIVE_INFINITY;
  let loop: DetectorLoop | undefined;
  return {
    start: async (onChange) => {
      const socket = datagrams(members[self]!.address, (bytes) => void loop?.receive(bytes));
      loop = new DetectorLoop({
        limits: DETECTION_LIMITS,
        members: members.map(({ name }) => name),
        self,
        incarnation: BigInt(1 + env.random.below(2 ** 48)),
        clock: threadClock,
        loopStalledMs: () => 0,
        send: (to, bytes) => socket.send(members[to]!.address, bytes),
        onChange,
        onLease: (endMs) => void (leaseEndMs = endMs),
      });
    },
    leaseEndMs: () => leaseEndMs,
    stop: async () => loop?.stop(),
  };
}

import {
  DETECTION_LIMITS,
  DetectorLoop,
  type ListedMembership,
  type MemberAddress,
  type MemberList,
  type Membership,
  type ReadList,
} from "@concord/failure-detection";
import type { NodeContext } from "@concord/simulation";

/** The detector that a worker thread runs in production, on the node's own clock and simulated datagrams. */
export function simulatedMembership(context: NodeContext, members: readonly MemberAddress[], nodeName: string): Membership {
  const { start, leaseEndMs, stop } = membershipOf(context, () => ({ names: members.map(({ name }) => name), places: members }), nodeName);
  return { start, leaseEndMs, stop };
}

/** The same with a list of members that changes (TX32). */
export function simulatedListedMembership(context: NodeContext, nodeName: string): ListedMembership {
  let read: ReadList | undefined;
  const membership = membershipOf(context, () => ({ names: read!.founders, places: read!.members, list: read! }), nodeName);
  const listRead = (list: ReadList): void => {
    if (read !== undefined && list.version < read.version) return;
    read = list;
    membership.relist(list);
  };
  return { ...membership, listRead };
}

/** Who the members are now. */
interface Members {
  /** As configured at first. */
  readonly names: readonly string[];
  readonly places: readonly (MemberAddress | undefined)[];
  readonly list?: ReadList;
}

function membershipOf(
  { env, threadClock, datagrams }: NodeContext,
  membersNow: () => Members,
  nodeName: string,
): ListedMembership & { relist(list: ReadList): void } {
  let leaseEndMs = Number.NEGATIVE_INFINITY;
  let loop: DetectorLoop | undefined;
  return {
    start: async (onChange, onNewerList) => {
      const { names, places, list } = membersNow();
      const self = places.findIndex((member) => member?.name === nodeName);
      const socket = datagrams(places[self]!.address, (bytes) => void loop?.receive(bytes));
      loop = new DetectorLoop({
        limits: DETECTION_LIMITS,
        members: names,
        ...(list === undefined ? {} : { list: { list: memberListOf(list), untilMs: list.readAtMs + DETECTION_LIMITS.listValidMs } }),
        self,
        incarnation: BigInt(1 + env.random.below(2 ** 48)),
        clock: threadClock,
        loopStalledMs: () => 0,
        send: (to, bytes) => {
          const address = membersNow().places[to]?.address;
          if (address !== undefined) socket.send(address, bytes);
        },
        onChange,
        onNewerList: (version) => onNewerList?.(version),
        onLease: (endMs) => void (leaseEndMs = endMs),
      });
    },
    listRead: () => undefined,
    relist: (list) => loop?.listRead(memberListOf(list), list.readAtMs),
    leaseEndMs: () => leaseEndMs,
    stop: async () => loop?.stop(),
  };
}

function memberListOf({ version, members }: ReadList): MemberList {
  return { version, names: members.map((member) => member?.name) };
}

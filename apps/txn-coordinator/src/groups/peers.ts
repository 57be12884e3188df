import { CoordinatorService, TopologyService } from "@concord/protos-txn";
import type { HandOverPeers } from "@concord/ownership";
import { bearer, callUnary } from "@concord/rpc";
import type { Channel, Metadata } from "@concord/runtime";

/** The other coordinators. */
export interface Peers extends HandOverPeers {
  /** Whether the coordinator at the address reports that it serves a group. */
  serves(address: string, name: string, timeoutMs: number): Promise<boolean>;
}

export function remotePeers(name: string, token: string | undefined, channelTo: (address: string) => Channel): Peers {
  const metadata: Metadata = bearer(token);
  const { Leave, Release } = CoordinatorService.methods;
  const { GetTopology } = TopologyService.methods;
  return {
    leave: async (address, timeoutMs) => void (await callUnary(channelTo(address), Leave, { name }, { timeoutMs, metadata })),
    release: async (address, { unit: group, listVersion }, timeoutMs) => {
      const request = { name, group, listVersion };
      return (await callUnary(channelTo(address), Release, request, { timeoutMs, metadata })).listVersion;
    },
    serves: async (address, other, timeoutMs) => {
      const { groups } = await callUnary(channelTo(address), GetTopology, { groupMapVersion: 0n }, { timeoutMs, metadata });
      return groups.some(({ master, epoch }) => master === other && epoch > 0n);
    },
  };
}

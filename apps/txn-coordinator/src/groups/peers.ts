import { CoordinatorService, TopologyService } from "@concord/protos-txn";
import { bearer, callUnary } from "@concord/rpc";
import type { Channel, Metadata } from "@concord/runtime";

/** The other coordinators, as partners of a planned hand-over (TX17). A call that fails means that the other one has no part in it. */
export interface Peers {
  /** This coordinator leaves: the one at the address sees it as failed from now on. Resolves when that one serves what falls to it. */
  leave(address: string, timeoutMs: number): Promise<void>;
  /**
   * Resolves when the coordinator at the address serves the group no longer, with the version of the list of coordinators that it knows: by a newer one
   * it released nothing.
   */
  release(address: string, request: { readonly group: string; readonly listVersion: number }, timeoutMs: number): Promise<number>;
  /** Does the coordinator at the address say that it serves a group? */
  serves(address: string, name: string, timeoutMs: number): Promise<boolean>;
}

export function remotePeers(name: string, token: string | undefined, channelTo: (address: string) => Channel): Peers {
  const metadata: Metadata = bearer(token);
  const { Leave, Release } = CoordinatorService.methods;
  const { GetTopology } = TopologyService.methods;
  return {
    leave: async (address, timeoutMs) => void (await callUnary(channelTo(address), Leave, { name }, { timeoutMs, metadata })),
    release: async (address, { group, listVersion }, timeoutMs) => {
      const request = { name, group, listVersion };
      return (await callUnary(channelTo(address), Release, request, { timeoutMs, metadata })).listVersion;
    },
    serves: async (address, other, timeoutMs) => {
      const { groups } = await callUnary(channelTo(address), GetTopology, { groupMapVersion: 0n }, { timeoutMs, metadata });
      return groups.some(({ master, epoch }) => master === other && epoch > 0n);
    },
  };
}

import { CoordinatorService } from "@concord/protos-txn";
import { bearer, callUnary } from "@concord/rpc";
import type { Channel, Metadata } from "@concord/runtime";

/** The other coordinators, as partners of a planned hand-over (TX17). A call that fails means that the other one has no part in it. */
export interface Peers {
  /** This coordinator leaves: the one at the address sees it as failed from now on. Resolves when that one serves what falls to it. */
  leave(address: string, timeoutMs: number): Promise<void>;
  /** Resolves when the coordinator at the address serves the group no longer. */
  release(address: string, group: string, timeoutMs: number): Promise<void>;
}

export function remotePeers(name: string, token: string | undefined, channelTo: (address: string) => Channel): Peers {
  const metadata: Metadata = bearer(token);
  const { Leave, Release } = CoordinatorService.methods;
  return {
    leave: async (address, timeoutMs) => void (await callUnary(channelTo(address), Leave, { name }, { timeoutMs, metadata })),
    release: async (address, group, timeoutMs) =>
      void (await callUnary(channelTo(address), Release, { name, group }, { timeoutMs, metadata })),
  };
}

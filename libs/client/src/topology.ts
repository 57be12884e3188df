import type { GetTopologyResponse } from "@concord/protos-txn";
import type { Topology } from "./api.ts";

export function topologyFromMessage(message: GetTopologyResponse): Topology {
  const groups = message.groups.map(({ id, fromToken, master }) => ({ id, fromToken: BigInt.asUintN(64, fromToken), master }));
  groups.sort((a, b) => (a.fromToken < b.fromToken ? -1 : a.fromToken > b.fromToken ? 1 : 0));
  const { groupMapVersion, schemaVersion } = message;
  return { coordinators: message.coordinators, storageProxies: message.storageProxies, groups, groupMapVersion, schemaVersion };
}

/** What a client without coordinators knows: the proxies it was given. */
export function topologyOfProxies(addresses: readonly string[]): Topology {
  const storageProxies = addresses.map((address) => ({ name: address, address, datacenter: "" }));
  return { coordinators: [], storageProxies, groups: [], groupMapVersion: 0n, schemaVersion: 0n };
}

/** Which coordinator serves which tokens (TX2). */
export interface Masters {
  /** In the order of tokens; the address is undefined where the map does not say. */
  readonly ranges: readonly { readonly fromToken: bigint; readonly address: string | undefined }[];
  /** The address that serves all tokens, when one does. */
  readonly only: string | undefined;
}

export function mastersOf(topology: Topology): Masters {
  const addresses = new Map(topology.coordinators.map((node) => [node.name, node.address]));
  const ranges = topology.groups.map(({ fromToken, master }) => ({ fromToken, address: addresses.get(master) }));
  const first = ranges[0];
  const isOnly = first?.fromToken === 0n && ranges.every(({ address }) => address === first.address);
  return { ranges, only: isOnly ? first.address : undefined };
}

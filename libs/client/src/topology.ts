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

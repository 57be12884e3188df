import type { TopologyService } from "@concord/protos-txn";
import type { AnswerOf, Handler } from "@concord/rpc";
import { ConcordError } from "@concord/runtime";
import type { Context } from "../context.ts";

/** Nodes and group map: what a fat client routes by (TX1). SCHEMA_BEHIND for a newer map than ours. */
export function getTopologyHandler(coordinator: Context): Handler<TopologyService, "GetTopology"> {
  return async (request) => {
    const { map } = coordinator.groups;
    if (request.groupMapVersion > map.version)
      throw new ConcordError("SCHEMA_BEHIND", `group map version ${request.groupMapVersion} is not known here yet`);
    return topologyOf(coordinator);
  };
}

/** As this coordinator sees it now. */
export function topologyOf({ config, groups, schema }: Context): AnswerOf<TopologyService, "GetTopology"> {
  const { map } = groups;
  return {
    coordinators: groups.coordinators,
    storageProxies: groups.reachable(config.storageProxies),
    groups: map.groups.map(({ id, fromToken }) => {
      const master = groups.masterOf(id).name;
      const standbys = groups.ranksOf(id).filter((name) => name !== master);
      return { id, fromToken, master, epoch: groups.epochOf(id) ?? 0n, standbys };
    }),
    groupMapVersion: map.version,
    schemaVersion: schema.catalogue.version,
  };
}

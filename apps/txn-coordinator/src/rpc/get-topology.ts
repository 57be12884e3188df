import type { TopologyService } from "@concord/protos-txn";
import type { Handler } from "@concord/rpc";
import { ConcordError } from "@concord/runtime";
import type { Context } from "../context.ts";

/** Nodes and group map: what a fat client routes by (TX1). SCHEMA_BEHIND for a newer map than ours. */
export function getTopologyHandler(coordinator: Context): Handler<TopologyService, "GetTopology"> {
  return async (request) => {
    const { config, groups, schema } = coordinator;
    const { map } = groups;
    if (request.groupMapVersion > map.version)
      throw new ConcordError("SCHEMA_BEHIND", `group map version ${request.groupMapVersion} is not known here yet`);
    return {
      coordinators: groups.coordinators,
      storageProxies: groups.reachable(config.storageProxies),
      groups: map.groups.map(({ id, fromToken }) => ({ id, fromToken, master: groups.masterOf(id).name })),
      groupMapVersion: map.version,
      schemaVersion: schema.catalogue.version,
    };
  };
}

import type { UnaryHandler } from "@concord/rpc";
import { ConcordError } from "@concord/runtime";
import type { Parts } from "../parts.ts";

/** Nodes and group map: what a fat client routes by (TX1). SCHEMA_BEHIND for a newer map than ours. */
export function getTopologyHandler(parts: Parts): UnaryHandler {
  return async (request: { readonly groupMapVersion: bigint }) => {
    const { config, groups, schema } = parts;
    const { map } = groups;
    if (request.groupMapVersion > map.version)
      throw new ConcordError("SCHEMA_BEHIND", `group map version ${request.groupMapVersion} is not known here yet`);
    return {
      coordinators: groups.coordinators,
      storageProxies: config.storageProxies,
      groups: map.groups.map(({ id, fromToken, master }) => ({ id, fromToken, master })),
      groupMapVersion: map.version,
      schemaVersion: schema.catalogue.version,
    };
  };
}

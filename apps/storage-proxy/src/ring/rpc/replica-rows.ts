import type { ReplicaService } from "@concord/protos-storage";
import type { Handler } from "@concord/rpc";
import { REPLICA_ITEMS_MAX } from "../limits.ts";
import type { RingNode } from "../ring-node.ts";
import { checkCount } from "../../rpc/checks.ts";

/** Peers' calls on this node's rows. Bytes are in the storage format and are checked where they are decoded. */
export function applyRowsHandler(node: () => RingNode): Handler<ReplicaService, "ApplyRows"> {
  return async (request) => {
    checkCount(request.mutations.length, REPLICA_ITEMS_MAX, "REPLICA_ITEMS_MAX", "mutations");
    await node().localRows.applyRows(request.mutations);
    return {};
  };
}

export function readRowsHandler(node: () => RingNode): Handler<ReplicaService, "ReadRows"> {
  return async (request) => {
    checkCount(request.keys.length, REPLICA_ITEMS_MAX, "REPLICA_ITEMS_MAX", "keys");
    return { images: await node().localRows.readRows(request.keys) };
  };
}

export function readRowRangeHandler(node: () => RingNode): Handler<ReplicaService, "ReadRowRange"> {
  return async (request) => {
    checkCount(request.limit, REPLICA_ITEMS_MAX, "REPLICA_ITEMS_MAX", "images");
    const { fromKey, toKey, reverse, limit } = request;
    const { rows, more } = await node().localRows.readRowRange({ from: fromKey, to: toKey, reverse, limit });
    return { images: rows, more };
  };
}

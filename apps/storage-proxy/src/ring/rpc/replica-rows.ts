import type { ReplicaService } from "@concord/protos-storage";
import type { Handler } from "@concord/rpc";
import { REPLICA_ITEMS_MAX } from "../limits.ts";
import { budgetMs } from "../../rpc/budget.ts";
import { positionsFromWire } from "../../rpc/numbers.ts";
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
  return async (request, context) => {
    checkCount(request.keys.length, REPLICA_ITEMS_MAX, "REPLICA_ITEMS_MAX", "keys");
    const { clock, writeTimeoutMs, localRows } = node();
    return { images: await localRows.readRows(request.keys, budgetMs(context, clock, writeTimeoutMs), positionsFromWire(request.after)) };
  };
}

export function readRowRangeHandler(node: () => RingNode): Handler<ReplicaService, "ReadRowRange"> {
  return async (request, context) => {
    checkCount(request.limit, REPLICA_ITEMS_MAX, "REPLICA_ITEMS_MAX", "images");
    const { fromKey, toKey, reverse, limit } = request;
    const { clock, writeTimeoutMs, localRows } = node();
    const timeoutMs = budgetMs(context, clock, writeTimeoutMs);
    const range = { from: fromKey, to: toKey, reverse, limit };
    const { rows, more } = await localRows.readRowRange(range, timeoutMs, positionsFromWire(request.after));
    return { images: rows, more };
  };
}

import type { UnaryHandler } from "@concord/rpc";
import { REPLICA_ITEMS_MAX } from "../limits.ts";
import type { RingNode } from "../ring-node.ts";
import { checkCount } from "../../rpc/checks.ts";

/** Peers' calls on this node's rows. Bytes are in the storage format and are checked where they are decoded. */
export function applyRowsHandler(node: () => RingNode): UnaryHandler {
  return async (request: { readonly mutations: readonly Uint8Array[] }) => {
    checkCount(request.mutations.length, REPLICA_ITEMS_MAX, "REPLICA_ITEMS_MAX", "mutations");
    await node().localRows.applyRows(request.mutations);
    return {};
  };
}

export function readRowsHandler(node: () => RingNode): UnaryHandler {
  return async (request: { readonly keys: readonly Uint8Array[] }) => {
    checkCount(request.keys.length, REPLICA_ITEMS_MAX, "REPLICA_ITEMS_MAX", "keys");
    return { images: await node().localRows.readRows(request.keys) };
  };
}

export function readRowRangeHandler(node: () => RingNode): UnaryHandler {
  return async (request: {
    readonly fromKey: Uint8Array;
    readonly toKey: Uint8Array;
    readonly reverse: boolean;
    readonly limit: number;
  }) => {
    checkCount(request.limit, REPLICA_ITEMS_MAX, "REPLICA_ITEMS_MAX", "images");
    const { fromKey, toKey, reverse, limit } = request;
    return node().localRows.readRowRange({ from: fromKey, to: toKey, reverse, limit });
  };
}

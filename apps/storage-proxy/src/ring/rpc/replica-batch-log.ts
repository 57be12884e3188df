import type { UnaryHandler } from "@concord/rpc";
import { timeIdFromBytes } from "@concord/runtime";
import type { RingNode } from "../ring-node.ts";

/** Peers' calls on this node's batchlog (LB3, LB7). The steps refuse what is malformed. */
export function batchLogPutHandler(node: () => RingNode): UnaryHandler {
  return async (request: { readonly entries: readonly Uint8Array[] }) => {
    const { engine, batchLog } = node();
    await engine.submit(batchLog.put(request.entries));
    return {};
  };
}

export function batchLogRemoveHandler(node: () => RingNode): UnaryHandler {
  return async (request: { readonly batchIds: readonly Uint8Array[] }) => {
    const { engine, batchLog } = node();
    await engine.submit(batchLog.remove(request.batchIds.map(timeIdFromBytes)));
    return {};
  };
}

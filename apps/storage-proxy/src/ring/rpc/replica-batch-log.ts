import type { ReplicaService } from "@concord/protos-storage";
import type { Handler } from "@concord/rpc";
import { timeIdFromBytes } from "@concord/runtime";
import type { RingNode } from "../ring-node.ts";

/** Peers' calls on this node's batchlog (LB3, LB7). The steps refuse what is malformed. */
export function batchLogPutHandler(node: () => RingNode): Handler<ReplicaService, "BatchLogPut"> {
  return async (request) => {
    const { engine, batchLog } = node();
    await engine.submit(batchLog.put(request.entries));
    return {};
  };
}

export function batchLogRemoveHandler(node: () => RingNode): Handler<ReplicaService, "BatchLogRemove"> {
  return async (request) => {
    const { engine, batchLog } = node();
    await engine.submit(batchLog.remove(request.batchIds.map(timeIdFromBytes)));
    return {};
  };
}

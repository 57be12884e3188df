import type { UnaryHandler } from "@concord/rpc";
import { timeIdFromBytes } from "@concord/runtime";
import type { Batches } from "../batches.ts";
import type { Parts } from "../../node-parts.ts";

/** Peers' calls on this node's batchlog (LB3, LB7). The steps refuse what is malformed. */
export function batchLogPutHandler(parts: Parts, batches: () => Batches): UnaryHandler {
  return async (request: { readonly entries: readonly Uint8Array[] }) => {
    await parts().engine.submit(batches().batchLog.put(request.entries));
    return {};
  };
}

export function batchLogRemoveHandler(parts: Parts, batches: () => Batches): UnaryHandler {
  return async (request: { readonly batchIds: readonly Uint8Array[] }) => {
    await parts().engine.submit(batches().batchLog.remove(request.batchIds.map(timeIdFromBytes)));
    return {};
  };
}

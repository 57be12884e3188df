import type { PutResult } from "@concord/logged-batch";
import type { BatchLogPutResult, ReplicaService } from "@concord/protos-storage";
import type { Handler } from "@concord/rpc";
import { timeIdFromBytes } from "@concord/runtime";
import type { RingNode } from "../ring-node.ts";

const RESULTS: Readonly<Record<PutResult, BatchLogPutResult>> = {
  kept: "BATCH_LOG_PUT_RESULT_KEPT",
  mismatch: "BATCH_LOG_PUT_RESULT_MISMATCH",
  "full-entries": "BATCH_LOG_PUT_RESULT_FULL",
  "full-bytes": "BATCH_LOG_PUT_RESULT_FULL_BYTES",
  expired: "BATCH_LOG_PUT_RESULT_EXPIRED",
};

/** Peers' calls on this node's batchlog (LB3, LB5, LB7). The steps refuse what is malformed. */
export function batchLogPutHandler(node: () => RingNode): Handler<ReplicaService, "BatchLogPut"> {
  return async ({ entries, decidedIds, removedIds, wanted }) => {
    const { engine, batchLog, executor } = node();
    if (wanted) {
      executor.want();
      return { results: [], applied: [] };
    }
    const request = { entries, decided: decidedIds.map(timeIdFromBytes), removed: removedIds.map(timeIdFromBytes) };
    const { results, applied } = await engine.submit(batchLog.write(request));
    return { results: results.map((result) => RESULTS[result]), applied };
  };
}

export function batchLogRemoveHandler(node: () => RingNode): Handler<ReplicaService, "BatchLogRemove"> {
  return async (request) => {
    const { engine, batchLog } = node();
    await engine.submit(batchLog.write({ entries: [], decided: [], removed: request.batchIds.map(timeIdFromBytes) }));
    return {};
  };
}

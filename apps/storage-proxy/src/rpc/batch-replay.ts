import type { BatchService } from "@concord/protos-storage";
import type { Handler } from "@concord/rpc";
import type { Serving } from "../context.ts";

/** Replays this node's pending entries now, whatever their age (LBD12). */
export function replayBatchesHandler(serving: Serving): Handler<BatchService, "ReplayBatches"> {
  return async () => {
    const { completed, kept, deadLettered } = await serving().batches.replay();
    return { completed: BigInt(completed), kept: BigInt(kept), deadLettered: BigInt(deadLettered) };
  };
}

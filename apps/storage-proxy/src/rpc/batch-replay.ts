import type { UnaryHandler } from "@concord/rpc";
import type { Serving } from "../context.ts";

/** Replays this node's pending entries now, whatever their age (LBD12). */
export function replayBatchesHandler(serving: Serving): UnaryHandler {
  return async () => {
    const { completed, kept, deadLettered } = await serving().batches.replay();
    return { completed: BigInt(completed), kept: BigInt(kept), deadLettered: BigInt(deadLettered) };
  };
}

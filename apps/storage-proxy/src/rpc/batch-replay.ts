import type { UnaryHandler } from "@concord/rpc";
import type { Batches } from "../ring/batches.ts";

/** Replays this node's pending entries now, whatever their age (LBD12). */
export function replayBatchesHandler(batches: () => Batches): UnaryHandler {
  return async () => {
    const { completed, kept, deadLettered } = await batches().replay.replayNow();
    return { completed: BigInt(completed), kept: BigInt(kept), deadLettered: BigInt(deadLettered) };
  };
}

import type { UnaryHandler } from "@concord/rpc";
import type { Parts } from "../parts.ts";
import { topicFromWire } from "./wire.ts";

/** Where a log begins and ends. PARTITION_UNKNOWN. */
export function getBoundsHandler({ log }: Parts): UnaryHandler {
  return async (request: { readonly topic: string; readonly partition: number }) => {
    const { start, end } = await log().bounds(topicFromWire(request.topic), request.partition);
    return { startOffset: start, endOffset: end, partitions: log().partitions };
  };
}

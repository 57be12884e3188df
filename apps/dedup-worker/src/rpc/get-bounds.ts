import type { OutputService } from "@concord/protos-dedup";
import type { Handler } from "@concord/rpc";
import type { Context } from "../context.ts";
import { topicFromWire } from "./wire.ts";

/** Where a log begins and ends. PARTITION_UNKNOWN. */
export function getBoundsHandler({ log }: Context): Handler<OutputService, "GetBounds"> {
  return async ({ topic, partition }) => {
    const { start, end } = await log().bounds(topicFromWire(topic), partition);
    return { startOffset: start, endOffset: end, partitions: log().partitions };
  };
}

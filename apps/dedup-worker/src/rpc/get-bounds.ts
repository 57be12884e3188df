import type { OutputService } from "@concord/protos-dedup";
import type { Handler } from "@concord/rpc";
import type { Context } from "../context.ts";
import { topicFromWire } from "./wire.ts";

/** Where a log begins and ends. PARTITION_UNKNOWN, NOT_OWNER. */
export function getBoundsHandler({ log, partitions }: Context): Handler<OutputService, "GetBounds"> {
  return async ({ topic, partition }) => {
    partitions().worker(partition);
    const { start, end } = await log().bounds(topicFromWire(topic), partition);
    return { startOffset: start, endOffset: end, partitions: log().partitions };
  };
}

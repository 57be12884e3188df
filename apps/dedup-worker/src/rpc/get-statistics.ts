import type { PartitionStatistics } from "@concord/dedup";
import type { PartitionStatisticsInit, WindowService } from "@concord/protos-dedup";
import type { Handler } from "@concord/rpc";
import type { Context } from "../context.ts";

const STATES = {
  rebuilding: "PARTITION_STATE_REBUILDING",
  unavailable: "PARTITION_STATE_REBUILDING",
  running: "PARTITION_STATE_RUNNING",
  stopped: "PARTITION_STATE_STOPPED",
} as const;

/** What each partition does and what its window holds (DD7, DDD12). */
export function getStatisticsHandler({ partitions }: Context): Handler<WindowService, "GetStatistics"> {
  return async () => ({ partitions: (await partitions().statistics()).map(statisticsToWire) });
}

function statisticsToWire({ window, ...partition }: PartitionStatistics): PartitionStatisticsInit {
  const { state } = partition;
  return {
    partition: partition.partition,
    state: STATES[state.kind],
    reason: state.kind === "stopped" || state.kind === "unavailable" ? state.reason.message : "",
    lag: partition.lag,
    ids: BigInt(window.ids),
    windowMs: BigInt(Math.max(0, Math.round(window.windowMs))),
    diskBytes: BigInt(window.diskBytes),
    memoryBytes: BigInt(window.memoryBytes),
    runs: window.segments,
    accepted: BigInt(partition.accepted),
    duplicates: BigInt(partition.duplicates),
    deadLettered: BigInt(partition.deadLettered),
    rerouted: BigInt(partition.rerouted),
    appliedOutput: window.appliedOutput,
  };
}

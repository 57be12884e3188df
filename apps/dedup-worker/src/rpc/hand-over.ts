import type { WorkerService } from "@concord/protos-dedup";
import type { Handler } from "@concord/rpc";
import type { Context } from "../context.ts";

/** Leave: another worker is about to stop; answers when this one serves what falls to it. */
export function leaveHandler({ partitions }: Context): Handler<WorkerService, "Leave"> {
  return async ({ name }) => {
    await partitions().units.left(name);
    return {};
  };
}

/** Release: another worker is to serve the partition; answers when this one does not any more. PARTITION_UNKNOWN. */
export function releaseHandler({ partitions }: Context): Handler<WorkerService, "Release"> {
  return async ({ name, partition, listVersion }) => ({ listVersion: await partitions().release(partition, name, listVersion) });
}

/** GetServed: how many partitions this worker has. */
export function getServedHandler({ partitions }: Context): Handler<WorkerService, "GetServed"> {
  return () => ({ partitions: partitions().units.served });
}

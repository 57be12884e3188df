import type { WorkerService } from "@concord/protos-dedup";
import type { Handler } from "@concord/rpc";
import type { Context } from "../context.ts";
import { malformed } from "./wire.ts";

/** Leave: another worker is about to stop; answers when this one serves what falls to it. */
export function leaveHandler({ partitions, others }: Context): Handler<WorkerService, "Leave"> {
  return async ({ name }) => {
    await partitions().left(checkedName(others, name));
    return {};
  };
}

/** Release: another worker is to serve the partition; answers when this one does not any more. PARTITION_UNKNOWN. */
export function releaseHandler({ partitions, others }: Context): Handler<WorkerService, "Release"> {
  return async ({ name, partition }) => {
    await partitions().release(partition, checkedName(others, name));
    return {};
  };
}

function checkedName(others: readonly string[], name: string): string {
  if (!others.includes(name)) throw malformed(`${name} is none of the other workers`);
  return name;
}

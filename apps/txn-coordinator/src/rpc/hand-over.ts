import type { CoordinatorService } from "@concord/protos-txn";
import type { Handler } from "@concord/rpc";
import type { Context } from "../context.ts";

/** Leave: another coordinator is about to stop (TX17); answers when this one serves what falls to it. */
export function leaveHandler(coordinator: Context): Handler<CoordinatorService, "Leave"> {
  return async ({ name }) => {
    await coordinator.groups.units.left(name);
    return {};
  };
}

/** Release: another coordinator is to serve the group; answers when this one does not any more. */
export function releaseHandler(coordinator: Context): Handler<CoordinatorService, "Release"> {
  return async ({ name, group, listVersion }) => {
    return { listVersion: await coordinator.groups.units.release(group, name, listVersion) };
  };
}

import type { CoordinatorService } from "@concord/protos-txn";
import { malformed } from "@concord/rows-wire";
import type { Handler } from "@concord/rpc";
import type { Context } from "../context.ts";

/** Leave: another coordinator is about to stop (TX17); answers when this one serves what falls to it. */
export function leaveHandler(coordinator: Context): Handler<CoordinatorService, "Leave"> {
  return async ({ name }) => {
    await coordinator.groups.left(checkedName(coordinator, name));
    return {};
  };
}

/** Release: another coordinator is to serve the group; answers when this one does not any more. */
export function releaseHandler(coordinator: Context): Handler<CoordinatorService, "Release"> {
  return async ({ name, group, listVersion }) => {
    return { listVersion: await coordinator.groups.release(group, checkedName(coordinator, name), listVersion) };
  };
}

function checkedName({ config, groups }: Context, name: string): string {
  const isOther = name !== config.nodeName && groups.coordinators.some((node) => node.name === name);
  if (!isOther) throw malformed(`${name} is none of the other coordinators`);
  return name;
}

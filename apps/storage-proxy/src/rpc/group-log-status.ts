import type { GroupLogService } from "@concord/protos-storage";
import type { Handler } from "@concord/rpc";
import type { Serving } from "../context.ts";
import { budgetMs } from "./budget.ts";

/** The promised epoch of a group, as a quorum knows it. */
export function statusHandler(serving: Serving): Handler<GroupLogService, "Status"> {
  return async (request, context) => {
    const { groupLog, config, clock } = serving();
    const status = await groupLog.status(request.group, budgetMs(context, clock, config.writeTimeoutMs));
    return { ...status, exchangesMax: groupLog.exchangesMax };
  };
}

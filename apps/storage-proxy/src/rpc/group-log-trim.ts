import type { GroupLogService } from "@concord/protos-storage";
import type { Handler } from "@concord/rpc";
import type { Serving } from "../context.ts";
import { budgetMs } from "./budget.ts";
import { trimFromWire } from "./numbers.ts";

/** Lets the log drop what is applied at quorum; best effort, repeated by the next trim. */
export function trimHandler(serving: Serving): Handler<GroupLogService, "Trim"> {
  return async (request, context) => {
    const { groupLog, config, clock } = serving();
    await groupLog.trim(trimFromWire(request), budgetMs(context, clock, config.writeTimeoutMs));
    return {};
  };
}

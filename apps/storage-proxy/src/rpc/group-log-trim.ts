import type { GroupLogService } from "@concord/protos-storage";
import type { Handler } from "@concord/rpc";
import type { Serving } from "../context.ts";
import { budgetMs } from "./budget.ts";
import { advanceFromWire } from "./numbers.ts";

/** Tells the replicas what is decided (TXD14). */
export function trimHandler(serving: Serving): Handler<GroupLogService, "Trim"> {
  return async (request, context) => {
    const { groupLog, config, clock } = serving();
    const outcome = await groupLog.advance(advanceFromWire(request), budgetMs(context, clock, config.writeTimeoutMs));
    return { advanced: outcome === "advanced" };
  };
}

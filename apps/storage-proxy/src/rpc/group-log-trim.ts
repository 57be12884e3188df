import type { TrimRequest } from "@concord/ports";
import type { UnaryHandler } from "@concord/rpc";
import type { Serving } from "../context.ts";
import { budgetMs } from "./budget.ts";

/** Lets the log drop what is applied at quorum; best effort, repeated by the next trim. */
export function trimHandler(serving: Serving): UnaryHandler {
  return async (request: TrimRequest, context) => {
    const { groupLog, config, clock } = serving();
    await groupLog.trim(request, budgetMs(context, clock, config.writeTimeoutMs));
    return {};
  };
}

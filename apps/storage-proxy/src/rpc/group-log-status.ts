import type { UnaryHandler } from "@concord/rpc";
import type { Serving } from "../context.ts";
import { budgetMs } from "./budget.ts";

/** The promised epoch of a group, as a quorum knows it. */
export function statusHandler(serving: Serving): UnaryHandler {
  return async (request: { readonly group: string }, context) => {
    const { groupLog, config, clock } = serving();
    return groupLog.status(request.group, budgetMs(context, clock, config.writeTimeoutMs));
  };
}

import type { UnaryHandler } from "@concord/rpc";
import type { Parts } from "../node-parts.ts";
import { budgetMs } from "./budget.ts";

/** The promised epoch of a group, as a quorum knows it. */
export function statusHandler(parts: Parts): UnaryHandler {
  return async (request: { readonly group: string }, context) => {
    const { groupLog, config, sources } = parts();
    return groupLog.status(request.group, budgetMs(context, sources.clock, config.writeTimeoutMs));
  };
}

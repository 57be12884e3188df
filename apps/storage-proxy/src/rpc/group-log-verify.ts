import type { GroupOwner } from "@concord/ports";
import type { UnaryHandler } from "@concord/rpc";
import { unreachable } from "@concord/runtime";
import type { Serving } from "../context.ts";
import { budgetMs } from "./budget.ts";

/** Is this epoch still the promised one at a quorum (TXD1)? */
export function verifyHandler(serving: Serving): UnaryHandler {
  return async (request: GroupOwner, context) => {
    const { groupLog, config, clock } = serving();
    const timeoutMs = budgetMs(context, clock, config.writeTimeoutMs);
    const outcome = await groupLog.verify(request, timeoutMs);
    switch (outcome) {
      case "current":
        return { current: {} };
      case "fenced":
        return { fenced: { epoch: 0n, owner: "" } };
      case "unknown":
        return { unknown: {} };
      default:
        return unreachable(outcome);
    }
  };
}

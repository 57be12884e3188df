import type { GroupLogService } from "@concord/protos-storage";
import type { Handler } from "@concord/rpc";
import { unreachable } from "@concord/runtime";
import type { Serving } from "../context.ts";
import { budgetMs } from "./budget.ts";
import { ownerFromWire } from "./numbers.ts";

/** Is this epoch still the promised one at a quorum (TXD1)? */
export function verifyHandler(serving: Serving): Handler<GroupLogService, "Verify"> {
  return async (request, context) => {
    const { groupLog, config, clock } = serving();
    const timeoutMs = budgetMs(context, clock, config.writeTimeoutMs);
    const outcome = await groupLog.verify(ownerFromWire(request), timeoutMs);
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

import type { GroupLogService } from "@concord/protos-storage";
import type { AppendRequest } from "@concord/ports";
import type { Handler } from "@concord/rpc";
import { epochOf, seqOf, unreachable } from "@concord/runtime";
import type { Serving } from "../context.ts";
import { budgetMs } from "./budget.ts";
import { ceilingFromWire, ownerFromWire } from "./numbers.ts";

/** Appends one flush under the promised epoch (TXR2); logged means two replicas synced it (TX27). */
export function appendHandler(serving: Serving): Handler<GroupLogService, "Append"> {
  return async (request, context) => {
    const { groupLog, config, clock } = serving();
    const timeoutMs = budgetMs(context, clock, config.writeTimeoutMs * groupLog.exchangesMax);
    const entry: AppendRequest = {
      ...ownerFromWire(request),
      seq: seqOf(request.seq),
      previousEpoch: epochOf(request.previousEpoch),
      timestampCeilingUs: ceilingFromWire(request.timestampCeilingUs),
      // copies: views would keep the whole frame in memory for as long as the entry lives
      bytes: Uint8Array.from(request.content),
      rows: Uint8Array.from(request.rows),
      decided: { seq: seqOf(request.decidedSeq), epoch: epochOf(request.decidedEpoch) },
    };
    const outcome = await groupLog.append(entry, timeoutMs, context.span);
    switch (outcome.kind) {
      case "logged":
        return { logged: {} };
      case "fenced":
        return { fenced: { epoch: outcome.promisedEpoch, owner: "" } };
      case "unknown":
        return { unknown: {} };
      default:
        return unreachable(outcome);
    }
  };
}

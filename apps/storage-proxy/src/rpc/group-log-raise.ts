import type { GroupOwner, LogEntry } from "@concord/ports";
import type { UnaryHandler } from "@concord/rpc";
import { unreachable } from "@concord/runtime";
import type { Serving } from "../context.ts";
import { budgetMs } from "./budget.ts";

/** Raises a group's epoch (TXD1, TXR3); the tail is what the new owner must finish. */
export function raiseHandler(serving: Serving): UnaryHandler {
  return async (request: GroupOwner, context) => {
    const { groupLog, config, clock } = serving();
    const timeoutMs = budgetMs(context, clock, config.writeTimeoutMs);
    const outcome = await groupLog.raise(request, timeoutMs);
    switch (outcome.kind) {
      case "raised":
        return { raised: { ...outcome.tail, entries: outcome.tail.entries.map(entryToWire) } };
      case "refused":
        return { refused: { epoch: outcome.promisedEpoch, owner: outcome.owner } };
      case "unknown":
        return { unknown: {} };
      default:
        return unreachable(outcome);
    }
  };
}

function entryToWire({ seq, epoch, bytes }: LogEntry): object {
  return { seq, epoch, content: bytes };
}

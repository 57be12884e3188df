import type { GroupLogService, LogEntry as WireEntry, LogTail } from "@concord/protos-storage";
import type { LogEntry } from "@concord/ports";
import { checkGroupLogProtocol } from "@concord/rows-wire";
import type { Handler } from "@concord/rpc";
import { unreachable } from "@concord/runtime";
import type { Serving } from "../context.ts";
import { budgetMs } from "./budget.ts";
import { ownerFromWire } from "./numbers.ts";

/** Raises a group's epoch (TXD1, TXR3); the tail is what the new owner must finish. */
export function raiseHandler(serving: Serving): Handler<GroupLogService, "Raise"> {
  return async (request, context) => {
    const { groupLog, config, clock } = serving();
    checkGroupLogProtocol(request.protocol);
    const timeoutMs = budgetMs(context, clock, config.writeTimeoutMs * groupLog.exchangesMax);
    const outcome = await groupLog.raise(ownerFromWire(request), timeoutMs);
    switch (outcome.kind) {
      case "raised":
        return { raised: { ...outcome.tail, entries: outcome.tail.entries.map(entryToWire) } satisfies LogTail };
      case "refused":
        return { refused: { epoch: outcome.promisedEpoch, owner: outcome.owner } };
      case "unknown":
        return { unknown: {} };
      default:
        return unreachable(outcome);
    }
  };
}

function entryToWire({ seq, epoch, bytes, rows }: LogEntry): WireEntry {
  return { seq, epoch, content: bytes, rows };
}

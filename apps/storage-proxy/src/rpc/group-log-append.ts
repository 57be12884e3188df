import type { UnaryHandler } from "@concord/rpc";
import { unreachable, type Epoch, type Seq, type TimestampUs } from "@concord/runtime";
import type { Serving } from "../context.ts";
import { budgetMs } from "./budget.ts";

interface AppendMessage {
  readonly group: string;
  readonly epoch: Epoch;
  readonly owner: string;
  readonly seq: Seq;
  readonly previousEpoch: Epoch;
  readonly timestampCeilingUs: TimestampUs;
  readonly content: Uint8Array;
}

/** Appends one flush under the promised epoch (TXR2); logged means two replicas synced it (TX27). */
export function appendHandler(serving: Serving): UnaryHandler {
  return async ({ content, ...request }: AppendMessage, context) => {
    const { groupLog, config, clock } = serving();
    const timeoutMs = budgetMs(context, clock, config.writeTimeoutMs);
    // a copy: a view would keep the whole frame in memory for as long as the entry lives
    const outcome = await groupLog.append({ ...request, bytes: Uint8Array.from(content) }, timeoutMs);
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

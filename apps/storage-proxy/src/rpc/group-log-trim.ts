import type { UnaryHandler } from "@concord/rpc";
import type { Epoch } from "@concord/runtime";
import type { Serving } from "../context.ts";
import { budgetMs } from "./budget.ts";

interface TrimMessage {
  readonly group: string;
  readonly epoch: Epoch;
  readonly owner: string;
  readonly appliedSeq: bigint;
  readonly appliedEpoch: Epoch;
}

/** Tells the replicas what is applied at quorum; best effort, repeated by the next trim. */
export function trimHandler(serving: Serving): UnaryHandler {
  return async ({ group, epoch, owner, appliedSeq, appliedEpoch }: TrimMessage, context) => {
    const { groupLog, config, clock } = serving();
    await groupLog.trim(group, epoch, owner, appliedSeq, appliedEpoch, budgetMs(context, clock, config.writeTimeoutMs));
    return {};
  };
}

import type { UnaryHandler } from "@concord/rpc";
import type { Epoch } from "@concord/runtime";
import type { Parts } from "../node-parts.ts";
import { budgetMs } from "./budget.ts";

interface TrimMessage {
  readonly group: string;
  readonly epoch: Epoch;
  readonly owner: string;
  readonly appliedSeq: bigint;
  readonly appliedEpoch: Epoch;
}

/** Tells the replicas what is applied at quorum; best effort, repeated by the next trim. */
export function trimHandler(parts: Parts): UnaryHandler {
  return async ({ group, epoch, owner, appliedSeq, appliedEpoch }: TrimMessage, context) => {
    const { groupLog, config, sources } = parts();
    await groupLog.trim(group, epoch, owner, appliedSeq, appliedEpoch, budgetMs(context, sources.clock, config.writeTimeoutMs));
    return {};
  };
}

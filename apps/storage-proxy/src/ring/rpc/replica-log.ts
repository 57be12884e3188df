import type { LogAppendResult, ReplicaService } from "@concord/protos-storage";
import { logStateToWire } from "@concord/adapter-ring";
import type { LogAppendReply } from "@concord/group-log";
import type { Handler, HandlerContext } from "@concord/rpc";
import { epochOf, seqOf } from "@concord/runtime";
import type { RingNode } from "../ring-node.ts";
import { budgetMs } from "../../rpc/budget.ts";
import { ceilingFromWire, ownerFromWire, trimFromWire } from "../../rpc/numbers.ts";

const RESULTS: Readonly<Record<LogAppendReply["result"], LogAppendResult>> = {
  accepted: "LOG_APPEND_RESULT_ACCEPTED",
  fenced: "LOG_APPEND_RESULT_FENCED",
  gap: "LOG_APPEND_RESULT_GAP",
};

/** Peers' calls on this node's group logs (TXR1, TXR2). The steps refuse what is malformed. */
export function logRaiseHandler(node: () => RingNode): Handler<ReplicaService, "LogRaise"> {
  return async (request, context) => {
    const reply = await node().localLog.logRaise(ownerFromWire(request), remainingMs(node, context));
    return { promised: reply.promised, state: logStateToWire(reply.state) };
  };
}

export function logAppendHandler(node: () => RingNode): Handler<ReplicaService, "LogAppend"> {
  return async (request, context) => {
    // copies: views would keep the whole frame in memory for as long as the entries live
    const entries = request.entries.map(({ seq, epoch, content }) => ({
      seq: seqOf(seq),
      epoch: epochOf(epoch),
      bytes: Uint8Array.from(content),
    }));
    const reply = await node().localLog.logAppend(
      {
        ...trimFromWire(request),
        previousEpoch: epochOf(request.previousEpoch),
        timestampCeilingUs: ceilingFromWire(request.timestampCeilingUs),
        entries,
      },
      remainingMs(node, context),
    );
    return { result: RESULTS[reply.result], state: logStateToWire(reply.state) };
  };
}

export function logStateHandler(node: () => RingNode): Handler<ReplicaService, "LogState"> {
  return async (request, context) => {
    return { state: logStateToWire(await node().localLog.logState(request.group, remainingMs(node, context))) };
  };
}

export function logReadHandler(node: () => RingNode): Handler<ReplicaService, "LogRead"> {
  return async (request, context) => {
    return {
      state: logStateToWire(await node().localLog.logRead({ ...request, fromSeq: seqOf(request.fromSeq) }, remainingMs(node, context))),
    };
  };
}

export function logTrimHandler(node: () => RingNode): Handler<ReplicaService, "LogTrim"> {
  return async (request, context) => {
    await node().localLog.logTrim(trimFromWire(request), remainingMs(node, context));
    return {};
  };
}

function remainingMs(node: () => RingNode, context: HandlerContext): number {
  const { clock, writeTimeoutMs } = node();
  return budgetMs(context, clock, writeTimeoutMs);
}

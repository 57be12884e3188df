import type { LogAppend, LogAppendedInit, ReplicaService } from "@concord/protos-storage";
import { entryFromWire, logStateToWire } from "@concord/adapter-ring";
import type { LogAppendReply, LogAppendRequest } from "@concord/group-log";
import { publicError, toStatus, type Handler, type HandlerContext } from "@concord/rpc";
import { epochOf, seqOf } from "@concord/runtime";
import type { RingSource } from "../ring-backend.ts";
import type { RingNode } from "../ring-node.ts";
import { budgetMs } from "../../rpc/budget.ts";
import { advanceFromWire, ceilingFromWire, ownerFromWire } from "../../rpc/numbers.ts";

/** Peers' calls on this node's group logs (TXR1, TXR2). The steps refuse what is malformed. */
export function logRaiseHandler(node: () => RingNode): Handler<ReplicaService, "LogRaise"> {
  return async (request, context) => {
    const reply = await node().localLog.logRaise(ownerFromWire(request), remainingMs(node, context));
    return { promised: reply.promised, state: logStateToWire(reply.state) };
  };
}

/** Each append is accepted, fenced or refused by itself. */
export function replicateHandler(node: () => RingNode): Handler<ReplicaService, "Replicate"> {
  return async ({ appends }, context) => {
    const { localLog } = node();
    const timeoutMs = remainingMs(node, context);
    const one = async (append: LogAppend): Promise<LogAppendedInit> => {
      try {
        return appendedToWire(await localLog.logAppend(appendFromWire(append), timeoutMs, context.span));
      } catch (thrown) {
        return { error: toStatus(publicError(thrown)) };
      }
    };
    return { appended: await Promise.all(appends.map(one)) };
  };
}

function appendFromWire(append: LogAppend): LogAppendRequest {
  return {
    ...advanceFromWire(append),
    previousEpoch: epochOf(append.previousEpoch),
    timestampCeilingUs: ceilingFromWire(append.timestampCeilingUs),
    entries: append.entries.map(entryFromWire),
    appliedByAllSeq: seqOf(append.appliedByAllSeq),
  };
}

function appendedToWire(reply: LogAppendReply): LogAppendedInit {
  if (reply.result === "accepted") return { result: "LOG_APPEND_RESULT_ACCEPTED", appliedSeq: reply.appliedSeq };
  const result = reply.result === "gap" ? "LOG_APPEND_RESULT_GAP" : "LOG_APPEND_RESULT_FENCED";
  return { result, state: logStateToWire(reply.state) };
}

export function logStateHandler(node: () => RingNode): Handler<ReplicaService, "LogState"> {
  return async (request, context) => {
    return { state: logStateToWire(await node().localLog.logState(request.group, remainingMs(node, context))) };
  };
}

/** A peer that catches up reads from a node that does so itself, too: else two of them would wait for each other. */
export function logReadHandler(node: () => RingNode, source: () => RingSource): Handler<ReplicaService, "LogRead"> {
  return async (request, context) => {
    const from = (): RingNode => (request.recovering ? source().node : node());
    const state = await from().localLog.logRead({ ...request, fromSeq: seqOf(request.fromSeq) }, remainingMs(from, context));
    return { state: logStateToWire(state) };
  };
}

export function logTrimHandler(node: () => RingNode): Handler<ReplicaService, "LogTrim"> {
  return async (request, context) => {
    const advance = { ...advanceFromWire(request), appliedByAllSeq: seqOf(request.appliedByAllSeq) };
    return { state: logStateToWire(await node().localLog.logAdvance(advance, remainingMs(node, context))) };
  };
}

export function logCatchUpHandler(node: () => RingNode): Handler<ReplicaService, "LogCatchUp"> {
  return async ({ group, seq }, context) => {
    await node().localLog.logCatchUp(group, seqOf(seq), remainingMs(node, context));
    return {};
  };
}

function remainingMs(node: () => RingNode, context: HandlerContext): number {
  const { clock, writeTimeoutMs } = node();
  return budgetMs(context, clock, writeTimeoutMs);
}

import { logStateToWire } from "@concord/adapter-ring";
import type { LogAppendReply, LogAppendRequest, LogReadRequest } from "@concord/group-log";
import type { GroupOwner, TrimRequest } from "@concord/ports";
import type { UnaryHandler } from "@concord/rpc";
import type { Epoch, Seq } from "@concord/runtime";
import type { RingNode } from "../ring-node.ts";
import { budgetMs } from "../../rpc/budget.ts";

interface LogAppendMessage extends Omit<LogAppendRequest, "entries"> {
  readonly entries: readonly { readonly seq: Seq; readonly epoch: Epoch; readonly content: Uint8Array }[];
}

const RESULTS: Readonly<Record<LogAppendReply["result"], string>> = {
  accepted: "LOG_APPEND_RESULT_ACCEPTED",
  fenced: "LOG_APPEND_RESULT_FENCED",
  gap: "LOG_APPEND_RESULT_GAP",
};

/** Peers' calls on this node's group logs (TXR1, TXR2). The steps refuse what is malformed. */
export function logRaiseHandler(node: () => RingNode): UnaryHandler {
  return async (request: GroupOwner, context) => {
    const reply = await node().localLog.logRaise(request, remainingMs(node, context));
    return { promised: reply.promised, state: logStateToWire(reply.state) };
  };
}

export function logAppendHandler(node: () => RingNode): UnaryHandler {
  return async (request: LogAppendMessage, context) => {
    // copies: views would keep the whole frame in memory for as long as the entries live
    const entries = request.entries.map(({ seq, epoch, content }) => ({ seq, epoch, bytes: Uint8Array.from(content) }));
    const reply = await node().localLog.logAppend({ ...request, entries }, remainingMs(node, context));
    return { result: RESULTS[reply.result], state: logStateToWire(reply.state) };
  };
}

export function logStateHandler(node: () => RingNode): UnaryHandler {
  return async (request: { readonly group: string }, context) => {
    return { state: logStateToWire(await node().localLog.logState(request.group, remainingMs(node, context))) };
  };
}

export function logReadHandler(node: () => RingNode): UnaryHandler {
  return async (request: LogReadRequest, context) => {
    return { state: logStateToWire(await node().localLog.logRead(request, remainingMs(node, context))) };
  };
}

export function logTrimHandler(node: () => RingNode): UnaryHandler {
  return async (request: TrimRequest, context) => {
    await node().localLog.logTrim(request, remainingMs(node, context));
    return {};
  };
}

function remainingMs(node: () => RingNode, context: Parameters<UnaryHandler>[1]): number {
  const { clock, writeTimeoutMs } = node();
  return budgetMs(context, clock, writeTimeoutMs);
}

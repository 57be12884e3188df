import { logStateToWire } from "@concord/adapter-ring";
import type { LogAppendReply, LogAppendRequest, LogRaiseRequest, LogReadRequest, LogTrimRequest } from "@concord/group-log";
import type { UnaryHandler } from "@concord/rpc";
import type { Epoch } from "@concord/runtime";
import type { Parts } from "../../node-parts.ts";
import { budgetMs } from "../../rpc/budget.ts";

interface LogAppendMessage extends Omit<LogAppendRequest, "entries"> {
  readonly entries: readonly { readonly seq: bigint; readonly epoch: Epoch; readonly content: Uint8Array }[];
}

const RESULTS: Readonly<Record<LogAppendReply["result"], string>> = {
  accepted: "LOG_APPEND_RESULT_ACCEPTED",
  fenced: "LOG_APPEND_RESULT_FENCED",
  gap: "LOG_APPEND_RESULT_GAP",
};

/** Peers' calls on this node's group logs (TXR1, TXR2). The steps refuse what is malformed. */
export function logRaiseHandler(parts: Parts): UnaryHandler {
  return async (request: LogRaiseRequest, context) => {
    const reply = await parts().localLog.logRaise(request, remainingMs(parts, context));
    return { promised: reply.promised, state: logStateToWire(reply.state) };
  };
}

export function logAppendHandler(parts: Parts): UnaryHandler {
  return async (request: LogAppendMessage, context) => {
    // copies: views would keep the whole frame in memory for as long as the entries live
    const entries = request.entries.map(({ seq, epoch, content }) => ({ seq, epoch, bytes: Uint8Array.from(content) }));
    const reply = await parts().localLog.logAppend({ ...request, entries }, remainingMs(parts, context));
    return { result: RESULTS[reply.result], state: logStateToWire(reply.state) };
  };
}

export function logStateHandler(parts: Parts): UnaryHandler {
  return async (request: { readonly group: string }, context) => {
    return { state: logStateToWire(await parts().localLog.logState(request.group, remainingMs(parts, context))) };
  };
}

export function logReadHandler(parts: Parts): UnaryHandler {
  return async (request: LogReadRequest, context) => {
    return { state: logStateToWire(await parts().localLog.logRead(request, remainingMs(parts, context))) };
  };
}

export function logTrimHandler(parts: Parts): UnaryHandler {
  return async (request: LogTrimRequest, context) => {
    await parts().localLog.logTrim(request, remainingMs(parts, context));
    return {};
  };
}

function remainingMs(parts: Parts, context: Parameters<UnaryHandler>[1]): number {
  const { config, sources } = parts();
  return budgetMs(context, sources.clock, config.writeTimeoutMs);
}

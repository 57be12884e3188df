import type { ReadOptions } from "@concord/ports";
import type { HandlerContext } from "@concord/rpc";
import type { Clock } from "@concord/runtime";

/** What is left of the call's time, at most `limitMs`. */
export function budgetMs(context: HandlerContext, clock: Clock, limitMs: number): number {
  return Math.max(1, Math.min(limitMs, context.deadlineAtMs - clock.monotonicMs()));
}

/** Time of a read, as `budgetMs` has it: one of large rows may take longer, as long as its caller waits. */
export function readBudget(context: HandlerContext, clock: Clock, limitMs: number): Pick<ReadOptions, "timeoutMs" | "longestMs"> {
  return { timeoutMs: budgetMs(context, clock, limitMs), longestMs: Math.max(1, context.deadlineAtMs - clock.monotonicMs()) };
}

import type { HandlerContext } from "@concord/rpc";
import type { Clock } from "@concord/runtime";

/** What is left of the call's time, at most `limitMs`. */
export function budgetMs(context: HandlerContext, clock: Clock, limitMs: number): number {
  return Math.max(1, Math.min(limitMs, context.deadlineAtMs - clock.monotonicMs()));
}

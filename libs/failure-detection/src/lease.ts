import { listEndMs } from "./list.ts";
import { observersOfSelf, type DetectorState } from "./state.ts";

/**
 * Until when this member may rely on no majority having called it gone or stuck (I2). On its own monotonic clock; compare before each answer.
 *
 * A member that heard our beat sent at `t` calls us lost no earlier than `t + lostMs`. A verdict needs a majority of the configured; of those
 * `majority - 1` others that echoed us last, at least one is in it. Stuck likewise: no beat says so before `stuckMs` without progress; and once one
 * has, only who heard a later one cannot call us stuck.
 */
export function leaseEndMs(state: DetectorState): number {
  const { limits, majority, progressAtMs } = state;
  const listedUntilMs = listEndMs(state.list);
  if (majority === 1) return listedUntilMs;
  const echoes = observersOfSelf(state).map(({ echoedAtMs }) => echoedAtMs);
  const heldSinceMs = echoes.sort((a, b) => b - a)[majority - 2]!;
  if (heldSinceMs <= state.stuckSaidAtMs) return Number.NEGATIVE_INFINITY;
  return Math.min(heldSinceMs + limits.lostMs, progressAtMs + limits.stuckMs, listedUntilMs) - limits.leaseMarginMs;
}

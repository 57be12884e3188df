import type { Opinion } from "./beat.ts";
import { leaseEndMs } from "./lease.ts";
import { reporters } from "./opinions.ts";
import { isHeard, observersOfSelf, reportOf, type DetectorState } from "./state.ts";
import type { SelfVerdict, Verdict } from "./verdict.ts";
import { observes } from "./topology.ts";

/**
 * TX14: what a majority of the configured members says of the member at `about`, which this one observes; as before while none does (README,
 * rules V1 to V4). In a ring the members that count are this one and its observers (TXD15).
 */
export function verdictOf(state: DetectorState, about: number, nowMs: number): Verdict {
  const { majority, topology } = state;
  const peer = state.peers[about]!;
  const said: Opinion[] = [peer.opinion];
  let isHeardByOthers = false;
  for (const { at } of reporters(state, nowMs)) {
    if (at !== about && !observes(topology, at, about)) continue;
    // A member that is heard here says by its beats that it works: it is one of those that hear it.
    const { opinion } = at === about ? peer : reportOf(state, at, about);
    if (at !== about && (opinion === "hears" || opinion === "returning")) isHeardByOthers = true;
    said.push(opinion);
  }
  // Heard by others only: it is one that hears itself all the same, as those others count; or this member and they would never agree.
  if (isHeardByOthers && !isHeard(peer)) said.push("hears");
  const count = (opinion: Opinion): number => said.filter((one) => one === opinion).length;
  if (count("lost") >= majority) return "gone";
  if (count("lost") + count("stuck") >= majority) return "stuck";
  return count("hears") + count("returning") >= majority ? "works" : peer.verdict;
}

/**
 * In a ring: the newest time, on the own clock, that no report of a majority for this verdict is older than. Minus infinity: no majority is for it now, or
 * it takes no work away.
 */
export function groundsAtMs(state: DetectorState, about: number, verdict: Verdict, nowMs: number): number {
  if (verdict !== "gone" && verdict !== "stuck") return Number.NEGATIVE_INFINITY;
  const isFor = (opinion: Opinion): boolean => opinion === "lost" || (verdict === "stuck" && opinion === "stuck");
  const { opinion: own } = state.peers[about]!;
  const times = isFor(own) ? [nowMs] : [];
  for (const { at, peer } of reporters(state, nowMs)) {
    if (at !== about && !observes(state.topology, at, about)) continue;
    if (isFor(at === about ? own : reportOf(state, at, about).opinion)) times.push(peer.reportedAfterMs);
  }
  return times.sort((a, b) => b - a)[state.majority - 1] ?? Number.NEGATIVE_INFINITY;
}

/** TX14 about oneself: hearing from fewer than a majority, lost by a majority, or not known to be heard for as long as others may wait (I2). */
export function selfVerdict(state: DetectorState, nowMs: number): SelfVerdict {
  const { majority, self } = state;
  const heard = observersOfSelf(state).filter(isHeard).length;
  const losing = reporters(state, nowMs).filter(
    ({ at }) => observes(state.topology, at, self) && isLosing(state, reportOf(state, at, self)),
  ).length;
  const works = heard + 1 >= majority && losing < majority && nowMs < leaseEndMs(state);
  if (works) return "works";
  return state.verdict === "joining" ? "joining" : "lost";
}

/** A report about another life with our name is one that lost us. */
function isLosing(state: DetectorState, { opinion, incarnation }: ReturnType<typeof reportOf>): boolean {
  return opinion === "lost" || opinion === "stuck" || (opinion !== "unknown" && incarnation !== state.incarnation);
}
